/** The hub's record of one shared object and its leases, and the rules that follow from it. */
import type { WithoutWriter } from "../../ring/channel-end.js";
import type { ChannelRole } from "../../wire/channel-content.js";
import { chargedBytes, fdsOf, sharedFileBytes } from "../../wire/descriptor.js";
import { endsWithOwner } from "../../wire/schemas.js";
import type { Session } from "../core/sessions.js";
import type { Account, Cost } from "../limits/quota.js";
import type { LeaseRecord, ObjectRecord } from "../restart/hub-records.js";

export interface Lease<Fd> {
  readonly id: number;
  readonly kind: LeaseRecord["kind"];
  readonly session: Session<Fd>;
  readonly object: SharedObject<Fd>;
  /** Undefined unless the object is a channel. */
  readonly role: ChannelRole | undefined;
  /** The number of a channel reader's page. Undefined for everybody else. */
  readonly seat: number | undefined;
  /** When it was granted, in Unix milliseconds. */
  readonly sinceMs: number;
  /** Brought back by the reader of a channel whose memory was lost with an earlier hub. */
  parts?: ReaderParts<Fd> | undefined;
}

/** The hub writes into the control file that the channel has ended, and rings the bell. */
export interface ReaderParts<Fd> {
  readonly control: Fd;
  readonly bell: Fd;
}

export type Grant = Pick<Lease<unknown>, "kind" | "role" | "seat">;

export interface ObjectMemory<Fd> {
  /** All of the object's descriptors. The first is the memory itself. */
  readonly fds: readonly [Fd, ...Fd[]];
  /** Whether the hub could write to host memory through the first descriptor. */
  readonly writable: boolean;
}

export interface SharedObject<Fd> extends Omit<ObjectRecord, "t"> {
  /** The account of the user who pays for it; see `chargeHolder`. */
  account: Account;
  readonly leases: ObjectLeases<Fd>;
  memory: ObjectMemory<Fd> | undefined;
  published: boolean;
  /**
   * False after `remove`: from then on only its leases keep it. False as well before an object that
   * replaces another one is published.
   */
  named: boolean;
  serviceUsers?: ObjectRecord["serviceUsers"];
  /** It is a channel that has or had a reader, since this hub runs. */
  hadReader?: boolean;
  /** Who removed its name, since this hub runs. */
  removedBy?: Pick<Session<Fd>, "peer" | "program"> | undefined;
  /** The position of its latest change (object-changes.ts). */
  changedAt: number;
  /** When its last lease ended, in Unix milliseconds. Counts only while it has none. */
  releasedAtMs: number;
}

export type NewObject<Fd> = Omit<
  SharedObject<Fd>,
  "id" | "leases" | "published" | "named" | "owner" | "account" | "changedAt" | "releasedAtMs"
> & {
  readonly memory: ObjectMemory<Fd>;
};

/** The leases on one object. The hub often needs some of them, and there may be 100,000. */
export class ObjectLeases<Fd> {
  readonly #all = new Map<number, Lease<Fd>>();
  /** Created on first use: only channels have seats, and a hub may have 100,000 objects. */
  #takenSeats: Set<number> | undefined;
  /** The creator's lease. */
  owner: Lease<Fd> | undefined;
  /** The lease of a channel's writer, or of the owner of a timeline that can be resumed. */
  writer: Lease<Fd> | undefined;

  get size(): number {
    return this.#all.size;
  }

  /** The oldest lease. */
  get first(): Lease<Fd> | undefined {
    for (const lease of this.#all.values()) return lease;
    return undefined;
  }

  /** Oldest first. */
  values(): IterableIterator<Lease<Fd>> {
    return this.#all.values();
  }

  isTaken(seat: number): boolean {
    return this.#takenSeats?.has(seat) ?? false;
  }

  add(lease: Lease<Fd>): void {
    this.#all.set(lease.id, lease);
    if (lease.kind === "owner") this.owner = lease;
    if (lease.role === "writer") this.writer = lease;
    if (lease.seat === undefined) return;
    this.#takenSeats ??= new Set();
    this.#takenSeats.add(lease.seat);
  }

  delete(lease: Lease<Fd>): void {
    this.#all.delete(lease.id);
    if (this.owner === lease) this.owner = undefined;
    if (this.writer === lease) this.writer = undefined;
    if (lease.seat !== undefined) this.#takenSeats?.delete(lease.seat);
  }
}

/**
 * What an account pays for an object. It pays once for a file that several of its objects share.
 * WHY no spread: two of them take Node 20 2 us, and a start on a large journal has 100,000 calls.
 */
export function costOf<Fd>({
  id,
  descriptor,
  inodes,
}: Pick<SharedObject<Fd>, "id" | "descriptor" | "inodes">): Cost {
  const descriptors = fdsOf(descriptor);
  const bytes = sharedFileBytes(descriptor);
  if (bytes === undefined) {
    const { hostBytes, deviceBytes } = chargedBytes(descriptor);
    return { objects: 1, descriptors, hostBytes, deviceBytes };
  }
  return { objects: 1, descriptors, file: { key: inodes[0] ?? `object ${id}`, bytes } };
}

/**
 * Charges the oldest holder for an object that its creator no longer needs. The creator's user
 * pays as long as the object has its name or its creator's lease.
 */
export function chargeHolder<Fd>(object: SharedObject<Fd>): void {
  const { named, leases, account } = object;
  const payer = leases.first?.session.account.parent;
  if (named || leases.owner !== undefined || payer === undefined || payer === account) return;
  const cost = costOf(object);
  account.refund(cost);
  payer.take(cost);
  object.account = payer;
}

/** The seats of a channel that no reader holds, in order. Empty for other objects. */
export function freeSeats<Fd>({ descriptor: { content }, leases }: SharedObject<Fd>): number[] {
  if (content.kind !== "channel") return [];
  return Array.from({ length: content.readersMax }, (_, seat) => seat).filter(
    (seat) => !leases.isTaken(seat),
  );
}

export function isChannel<Fd>({ descriptor }: SharedObject<Fd>): boolean {
  return descriptor.content.kind === "channel";
}

/** Whether it gets its name when it is published. */
export function takesNameLater<Fd>({ replace, published }: SharedObject<Fd>): boolean {
  return replace !== undefined && !published;
}

/** Whether the object can be opened. */
export function isReady<Fd>({ published, memory }: SharedObject<Fd>): boolean {
  return published && memory !== undefined;
}

/** Whether the creator asked for a channel or a timeline that stays without its writer. */
export function waitsForWriter<Fd>({ descriptor: { content } }: SharedObject<Fd>): boolean {
  if (content.kind === "timeline") return content.whenOwnerGone === "wait";
  return content.kind === "channel" && content.whenWriterGone === "wait";
}

/**
 * Whether one process after the other may be its writer: a channel, or a timeline that waits for
 * its next owner.
 */
export function hasWriter<Fd>(object: SharedObject<Fd>): boolean {
  return isChannel(object) || waitsForWriter(object);
}

/**
 * Whether an object without a writer stays for the next one. The next writer must find it by name
 * and needs all of its memory, and nobody can bring lost memory back.
 */
export function isAwaited<Fd>(object: SharedObject<Fd>): boolean {
  return waitsForWriter(object) && object.published && object.named && object.memory !== undefined;
}

/** The state to store in a channel that has lost its writer. Requires that it has its memory. */
export function withoutWriter<Fd>(object: SharedObject<Fd>): WithoutWriter {
  if (isAwaited(object)) return "awaited";
  return object.named ? "gone" : "removed";
}

/** Whether the object outlives its owner, or its writer if it has one. */
export function staysWithoutOwner<Fd>(object: SharedObject<Fd>): boolean {
  if (hasWriter(object)) return isAwaited(object);
  return object.published && !hasEndWord(object);
}

/**
 * Whether the hub marks the end of its owner by a word in its memory file: a timeline, and the mark
 * of legacy memory.
 */
export function hasEndWord<Fd>({ descriptor }: Pick<SharedObject<Fd>, "descriptor">): boolean {
  return descriptor.content.kind === "timeline" || endsWithOwner(descriptor);
}

/** Whether the hub writes into the object's memory when leases begin or end. */
export function hasHubWords<Fd>(object: Pick<SharedObject<Fd>, "descriptor">): boolean {
  return object.descriptor.content.kind === "channel" || hasEndWord(object);
}

/** Whether the owner, or the writer of an object that has one, still holds a lease. */
export function isHeld<Fd>(object: SharedObject<Fd>): boolean {
  return hasWriter(object) ? object.leases.writer !== undefined : isOwned(object);
}

/** When its last lease ended, in Unix milliseconds. Undefined while it has leases. */
export function unheldSince<Fd>({ leases, releasedAtMs }: SharedObject<Fd>): number | undefined {
  return leases.size === 0 ? releasedAtMs : undefined;
}

export function isOwned<Fd>(object: SharedObject<Fd>): boolean {
  return object.leases.owner !== undefined;
}

/** Whether a pinned object would outlive its leases, but lost its memory with an earlier hub. */
export function isLost<Fd>({ lifetime, published, named, memory }: SharedObject<Fd>): boolean {
  return lifetime === "pinned" && published && named && memory === undefined;
}
