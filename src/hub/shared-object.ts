/** What the hub knows of one shared object and of the leases on it, and what follows from that. */
import type { WithoutWriter } from "../ring/channel-end.js";
import type { ChannelRole } from "../wire/channel-content.js";
import { chargedBytes, type Descriptor, fdsOf } from "../wire/descriptor.js";
import type { Lifetime, Sharing } from "../wire/messages.js";
import type { LeaseRecord, ObjectRecord } from "./hub-records.js";
import type { ObjectLeases } from "./object-leases.js";
import type { Account, Cost } from "./quota.js";
import type { Session } from "./sessions.js";

export type LeaseKind = LeaseRecord["kind"];

export interface Lease<Fd> {
  readonly id: number;
  readonly kind: LeaseKind;
  readonly session: Session<Fd>;
  readonly object: SharedObject<Fd>;
  /** Of a channel; undefined on anything else. */
  readonly role: ChannelRole | undefined;
  /** Of a reader of a channel. */
  readonly place: number | undefined;
  /** What a reader brought of a channel whose memory went with an earlier hub. */
  parts?: readonly Fd[] | undefined;
}

/** What is granted: for reading or writing, and of a channel what part in it. */
export type Grant = Pick<Lease<unknown>, "kind" | "role" | "place">;

/** All of the object's descriptors; `writable` says whether the hub could write to host memory by the first. */
export interface ObjectMemory<Fd> {
  readonly fds: readonly [Fd, ...Fd[]];
  readonly writable: boolean;
}

export interface SharedObject<Fd> {
  readonly id: number;
  readonly name: string;
  readonly lifetime: Lifetime;
  readonly sharing: Sharing;
  readonly descriptor: Descriptor;
  readonly createdAtMs: number;
  readonly owner: ObjectRecord["owner"];
  readonly inodes: ObjectRecord["inodes"];
  /** Whether its creator gave host memory in a way that lets others write to it. */
  readonly writable: boolean;
  /** Of the user who pays for it; see `chargeHolder`. */
  account: Account;
  readonly leases: ObjectLeases<Fd>;
  memory: ObjectMemory<Fd> | undefined;
  published: boolean;
  /** False once it was removed: it then lives for its leases alone. */
  named: boolean;
}

/**
 * The user who created an object pays for it until that user has let go of it. From then on it is there for those who keep it, and the
 * one who has kept it longest pays.
 */
export function chargeHolder<Fd>(object: SharedObject<Fd>): void {
  const { named, leases, account } = object;
  const payer = leases.first?.session.account.parent;
  if (named || leases.owner !== undefined || payer === undefined || payer === account) return;
  const cost = costOf(object.descriptor);
  account.refund(cost);
  payer.take(cost);
  object.account = payer;
}

/** The places of a channel that no reader has, in order. */
export function freePlaces<Fd>({ descriptor: { content }, leases }: SharedObject<Fd>): number[] {
  if (content.kind !== "channel") return [];
  return Array.from({ length: content.readersMax }, (_, place) => place).filter((place) => !leases.isTaken(place));
}

export function isChannel<Fd>({ descriptor }: SharedObject<Fd>): boolean {
  return descriptor.content.kind === "channel";
}

/**
 * Whether a channel without a writer stays for the next one: whoever comes must find it by its name and get all of its memory, which
 * nobody can bring back any more where it is lost.
 */
export function isAwaited<Fd>(object: SharedObject<Fd>): boolean {
  return waitsForWriter(object) && object.published && object.named && object.memory !== undefined;
}

/** Whether it was created to stay without a writer. */
export function waitsForWriter<Fd>({ descriptor: { content } }: SharedObject<Fd>): boolean {
  return content.kind === "channel" && content.whenWriterGone === "wait";
}

/** What a channel that has its memory is without a writer. */
export function withoutWriter<Fd>(object: SharedObject<Fd>): WithoutWriter {
  if (isAwaited(object)) return "awaited";
  return object.named ? "gone" : "removed";
}

/** Whether its owner has gone without ending it. */
export function staysWithoutOwner<Fd>(object: SharedObject<Fd>): boolean {
  const { kind } = object.descriptor.content;
  return kind === "channel" ? isAwaited(object) : object.published && kind !== "timeline";
}

/** Whether somebody has it whose end would end it, or would if it were not published: its owner, or the writer of a channel. */
export function isHeld<Fd>(object: SharedObject<Fd>): boolean {
  return isChannel(object) ? object.leases.writer !== undefined : isOwned(object);
}

export function isOwned<Fd>(object: SharedObject<Fd>): boolean {
  return object.leases.owner !== undefined;
}

/** Whether it is pinned and would live on without leases, had its memory not gone with an earlier hub. */
export function isLost<Fd>({ lifetime, published, named, memory }: SharedObject<Fd>): boolean {
  return lifetime === "pinned" && published && named && memory === undefined;
}

/** What its creator says of it. */
export type NewObject<Fd> = Omit<SharedObject<Fd>, "id" | "leases" | "published" | "named" | "owner" | "account"> & {
  readonly memory: ObjectMemory<Fd>;
};

export function costOf(descriptor: Descriptor): Cost {
  return { objects: 1, descriptors: fdsOf(descriptor), ...chargedBytes(descriptor) };
}
