/**
 * What of this machine's hub others may see, and when to look. The hub tells nobody about new
 * names, so a bridge asks now and then.
 */
import { defaults } from "../base/limits.js";
import { linkNameOf } from "../service/service-names.js";
import { MACHINES_VERSION, type NameRecord } from "../wire/machine-records.js";
import type { ObjectSummary } from "../wire/messages.js";

/** At most this share of a CPU goes into looking, however many names there are. */
const SHARE_OF_CPU = 0.05;
const PAUSE_MS_MAX = 10_000;

/** Who decides what other machines see, beside the owner of an object. */
export interface AnnounceRule {
  /** Whether the bridge's user wants a name announced. */
  readonly isAnnounced: (name: string) => boolean;
  /** Of the bridge. */
  readonly uid: number;
}

/** What this machine announces, of everything on its hub that its bridge may open. */
export interface Announced {
  readonly names: ReadonlyMap<string, NameRecord>;
  /** Services with a worker here whose links may go to other machines. */
  readonly services: ReadonlySet<string>;
}

export function announcedOf(
  objects: readonly ObjectSummary[],
  machine: string,
  rule: AnnounceRule,
): Announced {
  const names = new Map<string, NameRecord>();
  const services = new Set<string>();
  for (const object of objects) {
    const link = linkNameOf(object.name);
    if (link === undefined) {
      if (mayCross(object, object.name, rule)) names.set(object.name, recordOf(machine, object));
    } else if (!link.isRequests && mayOffer(object, link.service, rule)) services.add(link.service);
  }
  return { names, services };
}

/**
 * Whether a client on another machine may have an offer of a worker here. WHY not a private one of
 * another user: that user's worker could not read the requests, which belong to the bridge's user.
 */
export function mayOffer(object: ObjectSummary, service: string, rule: AnnounceRule): boolean {
  const isReadable = object.ownerUid === rule.uid || object.sharing.with !== "private";
  return isReadable && mayCross(object, service, rule);
}

/** Copies do not: their machine has the original. */
function mayCross(object: ObjectSummary, name: string, rule: AnnounceRule): boolean {
  const { published, hasMemory, descriptor } = object;
  const isOriginal = descriptor.replicaOf === undefined && descriptor.content.kind !== "timeline";
  return published && hasMemory && isOriginal && isWanted(object, name, rule);
}

/**
 * The owner's wish is enough. A pattern is the wish of the bridge's user. WHY not for private
 * objects of others: a bridge of root sees them, and their owners shared them with nobody.
 */
function isWanted(
  { sharing, ownerUid }: ObjectSummary,
  name: string,
  { isAnnounced, uid }: AnnounceRule,
): boolean {
  if (sharing.machines === true) return true;
  return isAnnounced(name) && (sharing.with !== "private" || ownerUid === uid);
}

function recordOf(
  machine: string,
  { name, object, sharing, createdAtMs, descriptor }: ObjectSummary,
): NameRecord {
  const { with: sharedWith } = sharing;
  return { v: MACHINES_VERSION, name, machine, object, sharedWith, createdAtMs, descriptor };
}

/** Calls `look` again and again, and at once when asked to. One call at a time. */
export class Looking {
  readonly #look: () => Promise<void>;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #isWanted = false;
  #open = true;

  constructor(look: () => Promise<void>) {
    this.#look = look;
  }

  /** Looks now, or right after the look that is under way. */
  now(): void {
    this.#isWanted = true;
    if (this.#running !== undefined || !this.#open) return;
    clearTimeout(this.#timer);
    this.#running = this.#run().finally(() => {
      this.#running = undefined;
      if (this.#isWanted) this.now();
    });
  }

  /** Waits for the look that is under way. */
  async close(): Promise<void> {
    this.#open = false;
    clearTimeout(this.#timer);
    await this.#running;
  }

  async #run(): Promise<void> {
    this.#isWanted = false;
    const start = process.cpuUsage();
    await this.#look();
    if (!this.#open) return;
    // WHY not the time: a look waits for NATS when names are new, and then others are new, too.
    const { user, system } = process.cpuUsage(start);
    const pauseMs = (user + system) / 1000 / SHARE_OF_CPU;
    const boundedMs = Math.min(Math.max(defaults.bridgeLookMs, pauseMs), PAUSE_MS_MAX);
    this.#timer = setTimeout(() => this.now(), boundedMs);
  }
}
