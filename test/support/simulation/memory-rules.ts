/**
 * The model's rules for memory and permissions. They are written from the protocol, independently
 * of the hub's own checks.
 */
import type { Descriptor } from "../../../src/wire/descriptor.js";
import type { Sharing } from "../../../src/wire/messages.js";
import { isChannelAsClaimed, isKnowable } from "./channel-rules.js";
import type { ModelObject, ModelSession } from "./model.js";
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

export function usesOf({
  device,
  content,
  allocationByteLength,
  mechanism,
  byteLength,
}: Descriptor): Uses {
  const bytes =
    content.kind === "timeline" ? 64 : mechanism === "pool" ? byteLength : allocationByteLength;
  if (content.kind === "channel") {
    const { slots, metaBytesMax, readersMax } = content;
    const words = 5120 + slots * (128 + Math.ceil(metaBytesMax / 64) * 64) + readersMax * 4096;
    const slotBytes =
      device.kind === "host"
        ? { hostBytes: bytes + words }
        : { hostBytes: words, deviceBytes: bytes };
    return { objects: 1, descriptors: 3 + 2 * readersMax, ...slotBytes };
  }
  const counts = { objects: 1, descriptors: content.kind === "bundle" ? 2 : 1 };
  const mark = mechanism === "legacy" ? 4096 : 0;
  return device.kind === "host"
    ? { ...counts, hostBytes: bytes + mark }
    : { ...counts, hostBytes: mark, deviceBytes: bytes };
}

/** Whether the memory is what its descriptor claims. */
function isAsClaimed(descriptor: Descriptor, held: readonly Held[]): boolean {
  const { device, mechanism, allocationByteLength, content, pooled } = descriptor;
  const [memory, index] = held.map(({ file }) => file.facts);
  const isHost = hasOwnFile(descriptor) || device.kind === "host";
  const claimed = mechanism === "legacy" ? 4096 : (pooled?.maxBytes ?? allocationByteLength);
  if (isHost && !(memory?.sizeSealed && memory.byteLength >= claimed)) return false;
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
