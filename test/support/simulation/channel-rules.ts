/**
 * The model's rules for channels: which roles are allowed, what each role gets, and what the hub
 * must have written into the files.
 */
import assert from "node:assert/strict";
import type { Descriptor } from "../../../src/wire/descriptor.js";
import type { RequestOf } from "../../../src/wire/messages.js";
import type { ModelLease, ModelObject } from "./model.js";
import type { File, Held } from "./world.js";

const [DATA, CONTROL, ROOM, PLACES] = [0, 1, 2, 3];

type Content = Extract<Descriptor["content"], { kind: "channel" }>;

export function channelOfObject({
  descriptor: { content },
}: Pick<ModelObject, "descriptor">): Content | undefined {
  return content.kind === "channel" ? content : undefined;
}

export function writerOf(object: ModelObject): ModelLease | undefined {
  return [...object.leases.values()].find(({ role }) => role === "writer");
}

/** Whether another process may become its writer, or the owner of the timeline. */
function waits({ descriptor: { content } }: Pick<ModelObject, "descriptor">): boolean {
  if (content.kind === "timeline") return content.whenOwnerGone === "wait";
  return content.kind === "channel" && content.whenWriterGone === "wait";
}

/** Whether its creator is its writer. */
export function hasWriter(object: Pick<ModelObject, "descriptor">): boolean {
  return channelOfObject(object) !== undefined || waits(object);
}

/** Whether the writer itself has closed it. */
function isClosed(object: ModelObject): boolean {
  const { files } = object;
  const isChannel = channelOfObject(object) !== undefined;
  return (isChannel ? files[CONTROL]?.closed : files[DATA]?.ended) === true;
}

/** Whether the owner is gone, or the writer of an object that has one. */
export function isOrphan(object: ModelObject): boolean {
  return hasWriter(object) ? writerOf(object) === undefined : object.ownerLease === undefined;
}

export function isAwaited(object: ModelObject): boolean {
  const { published, named, memory } = object;
  return waits(object) && published && named && memory !== undefined && !isClosed(object);
}

/**
 * Whether the writer closed it and was the last holder. The next hub ends it without a
 * bell, because nobody is left to hear it.
 */
export function isClosedAndUnheld(object: ModelObject): boolean {
  const { published, named, memory, pinned, leases } = object;
  const stays = waits(object) && isClosed(object);
  return stays && published && named && memory !== undefined && !pinned && leases.size === 0;
}

export function freePlaces(object: ModelObject): number[] {
  const taken = [...object.leases.values()].map(({ place }) => place);
  const { readersMax } = channelOfObject(object) as Content;
  return [...Array(readersMax).keys()].filter((place) => !taken.includes(place));
}

/** The code of a refusal that does not depend on the asking client. */
export function roleRefusal(object: ModelObject, { role }: RequestOf<"open">): string | undefined {
  const isNextOwner = object.descriptor.content.kind === "timeline" && role === "writer";
  if (isNextOwner && !waits(object)) return "READ_ONLY";
  if ((channelOfObject(object) === undefined) !== (role === undefined) && !isNextOwner)
    return "WRONG_KIND";
  if (role === "writer" && writerOf(object) !== undefined) return "IN_USE";
  return role === "reader" && freePlaces(object).length === 0 ? "READERS_FULL" : undefined;
}

/**
 * The descriptors for each role, in order. The second list names the writable ones if the data is
 * host memory.
 */
export function givenTo(object: ModelObject, role: string | undefined, place: number | undefined) {
  // WHY not the files of its creation: memory of a GPU can come back as other files.
  const files = object.memory?.map(({ file }) => file) ?? object.files;
  const page = PLACES + 2 * (place ?? 0);
  if (role === "reader") return pick(files, [DATA, CONTROL, ROOM, page, page + 1], [page]);
  const pages = files
    .map((_, index) => index)
    .filter((index) => index >= PLACES && index % 2 === 1);
  if (role === "observer") return pick(files, [CONTROL, ...pages], []);
  return pick(files, [...files.keys()], [DATA, CONTROL, ...pages]);
}

function pick(files: readonly File[], indices: readonly number[], writable: readonly number[]) {
  return indices.map((index) => ({
    file: files[index] as File,
    writable: writable.includes(index),
  }));
}

/** Whether all files except the data are those of such a channel. */
export function isChannelAsClaimed(content: Content, held: readonly Held[]): boolean {
  const controlBytes = 5120 + content.slots * (128 + Math.ceil(content.metaBytesMax / 64) * 64);
  return held.every(({ file, writable }, index) => {
    if (index === DATA) return true;
    if (index === ROOM || (index > ROOM && index % 2 === 0)) return file.isBell;
    const { byteLength, sizeSealed } = file.facts;
    return writable && sizeSealed && byteLength === (index === CONTROL ? controlBytes : 4096);
  });
}

/** Whether the hub can recognise the file behind this descriptor. */
export function isKnowable({ device, mechanism, content }: Descriptor, index: number): boolean {
  if (index === 0) return device.kind === "host" || mechanism === "legacy";
  return content.kind !== "channel" || index === CONTROL || index % 2 === 1;
}

/** The code of the error for the files that a reader brings; undefined if they are right. */
export function partsRefusal(
  { object, role, place }: ModelLease,
  held: readonly Held[],
): string | undefined {
  const given = role === "reader" ? givenTo(object, role, place) : [];
  if (held.length !== given.length || given.length === 0) return "INVALID_MESSAGE";
  const areSame = [1, 3].every((index) => held[index]?.file === given[index]?.file);
  return areSame && held[2]?.file.isBell && held[4]?.file.isBell ? undefined : "INVALID_DESCRIPTOR";
}

export function bellsOf({ files }: ModelObject): File[] {
  return files.filter((_, index) => index > ROOM && index % 2 === 0);
}

export function roomBellOf({ files }: ModelObject): File {
  return files[ROOM] as File;
}

/** Checks the words that the hub wrote into the files of an object with memory. */
export function checkWords(object: ModelObject): void {
  const [held] = object.memory ?? [];
  const isTimeline = channelOfObject(object) === undefined;
  if (isTimeline && held?.writable && isAwaited(object))
    assert.equal(held.file.awaited, isOrphan(object), `the owner of object ${object.id}`);
  checkChannelFiles(object);
}

function checkChannelFiles(object: ModelObject): void {
  const content = channelOfObject(object);
  if (content === undefined || object.memory === undefined) return;
  const { files, id } = object;
  const leases = [...object.leases.values()];
  for (let place = 0; place < content.readersMax; place += 1) {
    const reader = leases.find((lease) => lease.place === place);
    const found = files[PLACES + 2 * place]?.lease ?? 0;
    // WHY 0 is allowed: the hub may have died between the record and the write. Then its client got
    // no reply.
    assert.ok(
      found === 0 || (found === reader?.id && !reader.session.disconnected),
      `seat ${place} of object ${id} has lease ${reader?.id}, page: ${found}`,
    );
  }
  const control = files[CONTROL] as File;
  if (writerOf(object) !== undefined || control.closed) return;
  assert.equal(
    control.next,
    isAwaited(object) ? "awaited" : "removed",
    `the writer of object ${id}`,
  );
}

/** Checks the end of a channel without memory. The files of one reader are enough to write it. */
export function checkEndedByParts({ files, id }: ModelObject): void {
  const control = files[CONTROL] as File;
  if (control.reopenable && !control.closed) assert.equal(control.next, "gone", `object ${id}`);
}
