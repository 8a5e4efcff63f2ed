/** The objects of this machine's hub that the bridge shows to other machines. */
import { linkNameOf } from "../service/service-names.js";
import type { NameRecord } from "../wire/machine-records.js";
import { MACHINES_VERSION } from "../wire/machines-version.js";
import type { ObjectSummary } from "../wire/messages.js";

/** Who decides what other machines see, beside the owner of an object. */
export interface AnnounceRule {
  /** Whether the bridge's user wants a name announced. */
  readonly isAnnounced: (name: string) => boolean;
  /** Of the bridge. */
  readonly uid: number;
  /** The users whose workers clients of other machines may have. */
  readonly workers: ReadonlySet<number>;
}

/** What this machine announces, of everything on its hub that its bridge may open. */
export interface Announced {
  readonly names: ReadonlyMap<string, NameRecord>;
  /** Whose object has each name: the uid. */
  readonly nameOwners: ReadonlyMap<string, number>;
  /** Services with a worker here whose links may go to other machines, and the worker's uid. */
  readonly services: ReadonlyMap<string, number>;
}

export function announcedOf(
  objects: readonly ObjectSummary[],
  machine: string,
  rule: AnnounceRule,
): Announced {
  const names = new Map<string, NameRecord>();
  const nameOwners = new Map<string, number>();
  const services = new Map<string, number>();
  for (const object of objects) {
    // Only a channel is a link. Arrays may have such a name, too.
    const isChannel = object.descriptor.content.kind === "channel";
    const link = isChannel ? linkNameOf(object.name) : undefined;
    if (link === undefined) {
      if (!mayCross(object, object.name, rule)) continue;
      names.set(object.name, recordOf(machine, object));
      nameOwners.set(object.name, object.ownerUid);
    } else if (!link.isRequests && mayOffer(object, link.service, rule))
      services.set(link.service, object.ownerUid);
  }
  return { names, nameOwners, services };
}

/**
 * Whether a client on another machine may have an offer of a worker here. WHY not a private one of
 * another user: that user's worker could not read the requests, which belong to the bridge's user.
 */
export function mayOffer(object: ObjectSummary, service: string, rule: AnnounceRule): boolean {
  const isReadable = object.ownerUid === rule.uid || object.sharing.with !== "private";
  return isReadable && rule.workers.has(object.ownerUid) && mayCross(object, service, rule);
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
