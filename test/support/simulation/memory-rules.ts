/**
 * The model's rules for memory and permissions. They are written from the protocol, independently
 * of the hub's own checks.
 */
import type { Descriptor } from "../../../src/wire/descriptor.js";
import type { Sharing } from "../../../src/wire/messages.js";
import { isChannelAsClaimed, isKnowable } from "./channel-rules.js";
import type { Model, ModelLease, ModelObject, ModelSession } from "./model.js";
import type { Uses } from "./tally.js";
import type { Held } from "./world.js";

type Asking = Pick<ModelSession, "peer">;

export function isReady(object: ModelObject): boolean {
  return object.published && object.memory !== undefined;
}

/** Whether the object ends for everybody with its owner's lease. */
export function endsWithOwner({ content, mechanism }: Descriptor): boolean {
  return content.kind === "timeline" || mechanism === "legacy";
}

/** Whether the first file is of this object alone. */
export function hasOwnFile({ mechanism }: Descriptor): boolean {
  return mechanism === "memfd" || mechanism === "legacy";
}

export function mayManage({ owner }: Pick<ModelObject, "owner">, { peer }: Asking): boolean {
  return peer.uid === 0 || peer.uid === owner.uid;
}

export function mayOpen(
  object: Pick<ModelObject, "owner" | "sharing">,
  asking: Asking,
  access: string,
): boolean {
  if (mayManage(object, asking)) return true;
  const { gid, groups } = asking.peer;
  const isInvited =
    object.sharing.with === "all" ||
    (object.sharing.with === "group" && [gid, ...groups].includes(object.owner.gid));
  return isInvited && (access === "read" || object.sharing.access === "read-write");
}

interface Link {
  readonly service: string;
  readonly worker: string;
  readonly replies: string;
  readonly isOffer: boolean;
}

/** The service of which this name is an offer, or of whose link it has the requests. */
function linkOf(name: string): Link | undefined {
  const [, service = "", worker = "", number = "", requests] =
    /^(.+):w([0-9a-z]{1,24}):(\d{1,15})(:req)?$/.exec(name) ?? [];
  if (service === "") return undefined;
  const replies = `${service}:w${worker}:${number}`;
  return { service, worker, replies, isOffer: requests === undefined };
}

type Offered = Pick<ModelObject, "name" | "descriptor">;

function offeredService({ name, descriptor }: Offered): string | undefined {
  const link = linkOf(name);
  const isOffer = descriptor.replicaOf === undefined && descriptor.content.kind === "channel";
  return link?.isOffer && isOffer ? link.service : undefined;
}

/** The users of the service of this name. Without one of its offers, nobody has decided. */
function usersOfService(
  names: Model["names"],
  { name, descriptor }: Offered,
): readonly number[] | undefined {
  const { service, isOffer } = linkOf(name) ?? {};
  if (!isOffer || descriptor.replicaOf !== undefined) return undefined;
  const there = [...names.values()].find((other) => offeredService(other) === service);
  return there?.serviceUsers;
}

/** Whether only other users may be workers of the service, or this worker, if this is an offer. */
export function isOfOthers(
  { names, policy }: Pick<Model, "names" | "policy">,
  object: Offered,
  { peer: { uid } }: Asking,
): boolean {
  const link = linkOf(object.name);
  const same = [...names.values()].find((other) => {
    const { service, worker, isOffer } = linkOf(other.name) ?? {};
    return isOffer && service === link?.service && worker === link?.worker;
  });
  if (link?.isOffer && same && ![0, policy.uid, same.owner.uid].includes(uid)) return true;
  const users = usersOfService(names, object);
  return users !== undefined && ![0, policy.uid, ...users].includes(uid);
}

/**
 * The user of the worker for which these requests of a client are. Undefined for other objects; null
 * if the session is not the client.
 */
export function workerOfRequests(
  { names }: Pick<Model, "names">,
  { name }: Pick<Offered, "name">,
  session: ModelSession,
): number | undefined | null {
  const link = linkOf(name);
  if (link === undefined || link.isOffer) return undefined;
  const replies = names.get(link.replies);
  return replies && readerOf(replies)?.session === session ? replies.owner.uid : null;
}

/** The requests that the client of an offer has not made before it left. */
export function requestsOfNobody(
  { names }: Pick<Model, "names">,
  { name }: Pick<Offered, "name">,
): string | undefined {
  const link = linkOf(name);
  const replies = names.get(link?.replies ?? "");
  if (replies?.hadReader !== true || readerOf(replies) !== undefined) return undefined;
  const requests = `${replies.name}:req`;
  return names.has(requests) ? undefined : requests;
}

function readerOf({ leases }: ModelObject): ModelLease | undefined {
  return [...leases.values()].find(({ role }) => role === "reader");
}

/** Who may be workers of a service once this offer is made. Undefined if it is no offer. */
export function decidedUsers(
  { names }: Pick<Model, "names">,
  object: Offered,
  wanted: readonly number[],
): readonly number[] | undefined {
  if (offeredService(object) === undefined) return undefined;
  return usersOfService(names, object) ?? wanted;
}

/** Why a user may not use the channel of a link. */
export function linkRefusal(
  { policy }: Pick<Model, "policy">,
  object: ModelObject,
  { peer: { uid } }: Asking,
  role: string | undefined,
): "READERS_FULL" | "PERMISSION_DENIED" | undefined {
  const link = linkOf(object.name);
  if (link === undefined) return undefined;
  if (link.isOffer && role === "reader") return object.hadReader ? "READERS_FULL" : undefined;
  const users = [0, policy.uid, object.owner.uid];
  if (!link.isOffer) users.push(...(object.serviceUsers ?? []));
  else if (object.descriptor.content.kind !== "channel") return undefined;
  else if (role === "observer") users.push(readerOf(object)?.session.peer.uid ?? uid + 1);
  return users.includes(uid) ? undefined : "PERMISSION_DENIED";
}

function pages(bytes: number): number {
  return Math.ceil(bytes / 4096) * 4096;
}

/** A host pool's file: a page, 16 bytes for each 512 bytes of data, and the data. */
function poolBytes(maxBytes: number): number {
  const units = Math.ceil(maxBytes / 512);
  return pages(4096 + units * 16) + units * 512;
}

/** What an object has of memory. */
export function bytesOf({
  device,
  content,
  allocationByteLength,
  mechanism,
  byteLength,
}: Descriptor): { readonly hostBytes: number; readonly deviceBytes: number } {
  if (content.kind === "timeline") return { hostBytes: 64, deviceBytes: 0 };
  let beside = mechanism === "legacy" ? 4096 : 0;
  if (content.kind === "bundle") beside += pages(content.indexByteLength);
  if (content.kind === "channel") {
    const { slots, metaBytesMax, readersMax } = content;
    const control = 5120 + slots * (128 + Math.ceil(metaBytesMax / 64) * 64);
    beside += pages(control) + readersMax * 4096;
  }
  const bytes = mechanism === "pool" ? byteLength : allocationByteLength;
  if (device.kind !== "host") return { hostBytes: beside, deviceBytes: bytes };
  return { hostBytes: (mechanism === "pool" ? bytes : pages(bytes)) + beside, deviceBytes: 0 };
}

export function usesOf(descriptor: Descriptor, inode: string): Uses {
  const { device, content, allocationByteLength, pooled } = descriptor;
  const channel = content.kind === "channel" ? 3 + 2 * content.readersMax : undefined;
  const counts = { objects: 1, descriptors: channel ?? (content.kind === "bundle" ? 2 : 1) };
  if (content.kind === "timeline")
    return { ...counts, file: { inode, bytes: pages(allocationByteLength) } };
  if (pooled !== undefined && device.kind === "host")
    return { ...counts, file: { inode, bytes: poolBytes(pooled.maxBytes) } };
  return { ...counts, ...bytesOf(descriptor) };
}

/** Whether the memory is what its descriptor claims. */
function isAsClaimed(descriptor: Descriptor, held: readonly Held[]): boolean {
  const { device, mechanism, allocationByteLength, content, pooled } = descriptor;
  const [memory, index] = held.map(({ file }) => file.facts);
  const isHost = hasOwnFile(descriptor) || device.kind === "host";
  const claimed = mechanism === "legacy" ? 4096 : (pooled?.maxBytes ?? allocationByteLength);
  const most = pooled === undefined ? pages(claimed) : poolBytes(claimed);
  if (isHost && !(memory?.sizeSealed && memory.byteLength >= claimed && memory.byteLength <= most))
    return false;
  if (content.kind === "channel") {
    return (
      isChannelAsClaimed(content, held) && (mechanism !== "memfd" || held[0]?.writable === true)
    );
  }
  return (
    content.kind !== "bundle" ||
    (index?.contentSealed === true && index.byteLength === content.indexByteLength)
  );
}

/** Whether a new object may have this memory. */
export function checkCreated(
  descriptor: Descriptor,
  sharing: Sharing,
  held: readonly Held[],
): boolean {
  const [memory] = held;
  const isEnded = endsWithOwner(descriptor);
  if (memory === undefined || !isAsClaimed(descriptor, held) || (isEnded && !memory.writable))
    return false;
  const words =
    descriptor.content.kind === "channel"
      ? held.filter(({ file }, i) => i > 0 && !file.isBell)
      : [];
  const isHost = hasOwnFile(descriptor) || descriptor.device.kind === "host";
  if (![...(isHost ? [memory] : []), ...words].every(({ file }) => file.facts.sealsClosed))
    return false;
  if (sharing.with === "private") return true;
  const isGuarded = hasOwnFile(descriptor) && (isEnded || sharing.access === "read");
  return ![...(isGuarded ? [memory] : []), ...words].some(({ file }) => file.facts.othersMayWrite);
}

/** The new memory of an object, undefined if it keeps its memory, or the code of the error. */
export function bringBack(
  object: ModelObject,
  asking: Asking,
  held: readonly Held[],
  fdTableFull: boolean,
): readonly Held[] | undefined | string {
  const { descriptor, files, memory: there } = object;
  const isHost = hasOwnFile(descriptor);
  const [memory, ...index] = held;
  if (held.length !== files.length || memory === undefined) return "INVALID_MESSAGE";
  if (!isHost && !mayManage(object, asking)) return "PERMISSION_DENIED";
  const knowable = held.filter((_, place) => isKnowable(descriptor, place));
  const known = files.filter((_, place) => isKnowable(descriptor, place));
  if (
    !isAsClaimed(descriptor, held) ||
    !known.every((file, place) => file === knowable[place]?.file)
  )
    return "INVALID_DESCRIPTOR";
  if (there !== undefined && (!isHost || there[0]?.writable || !memory.writable)) return undefined;
  if (!isHost || memory.writable || !object.writable) return held;
  if (fdTableFull) return "TOO_MANY_FDS";
  return [{ file: memory.file, writable: memory.file.reopenable }, ...index];
}
