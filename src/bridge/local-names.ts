/**
 * What of this machine's hub others may see, and when to look. The hub tells nobody about new
 * names, so a bridge asks now and then.
 */
import { defaults } from "../base/limits.js";
import { MACHINES_VERSION, type NameRecord } from "../wire/machine-records.js";
import type { ObjectSummary } from "../wire/messages.js";

/** At most this share of a CPU goes into looking, however many names there are. */
const SHARE_OF_CPU = 0.05;
const PAUSE_MS_MAX = 10_000;

/** What this machine announces, of everything on its hub. */
export function announcedOf(
  objects: readonly ObjectSummary[],
  machine: string,
  isAnnounced: (name: string) => boolean,
): ReadonlyMap<string, NameRecord> {
  const announced = new Map<string, NameRecord>();
  for (const object of objects) {
    if (isAnnounced(object.name) && canBeCopied(object))
      announced.set(object.name, recordOf(machine, object));
  }
  return announced;
}

/** Copies are not announced: their machine has the original. */
function canBeCopied({ published, hasMemory, descriptor }: ObjectSummary): boolean {
  const { kind } = descriptor.content;
  return published && hasMemory && kind !== "timeline" && descriptor.replicaOf === undefined;
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
