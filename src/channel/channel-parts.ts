/**
 * What a channel is made of, on either side: memory, words and bells, made here or given by another process, and closed together. The
 * order of the descriptors is that of docs/protocol.md.
 */
import type { DType } from "../array/dtype.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import type { DeviceBuffer } from "../gpu/device-buffer.js";
import { SharedWords } from "../gpu/shared-words.js";
import { createBell } from "../os/bell.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { type ChannelFacts, controlByteLength, PAGE_BYTES } from "../ring/channel-layout.js";
import { ControlWords } from "../ring/control-words.js";
import { SlotMemory, type SlotShape } from "./slot-memory.js";

export interface ChannelShape<D extends DType = DType> extends SlotShape<D>, Omit<ChannelFacts, "firstPosition"> {}

/** Of the writer. */
export interface WriterParts<D extends DType = DType> {
  readonly label: string;
  readonly memory: SlotMemory<D>;
  readonly control: SharedWords;
  readonly words: ControlWords;
  readonly roomBell: OwnedFd;
  readonly places: readonly PlaceParts[];
  close(): void;
}

export interface PlaceParts {
  readonly page: SharedWords;
  readonly bell: OwnedFd;
}

/** Of a reader. */
export interface ReaderParts<D extends DType = DType> {
  readonly label: string;
  readonly memory: SlotMemory<D>;
  readonly control: SharedWords;
  readonly words: ControlWords;
  readonly roomBell: OwnedFd;
  readonly page: SharedWords;
  readonly bell: OwnedFd;
  readonly place: number;
  readonly lease: number;
  close(): void;
}

/** A new channel in the memory of a buffer, which is taken over where this succeeds. */
export function createParts<D extends DType>(
  label: string,
  buffer: DeviceBuffer,
  shape: ChannelShape<D>,
  firstPosition = 0,
): WriterParts<D> {
  return acquireIn((scope) => {
    const control = scope.own(SharedWords.create(controlByteLength(shape)), (words) => words.release());
    const roomBell = scope.own(createBell(), (bell) => bell.close());
    const places = Array.from({ length: shape.readersMax }, () => ({
      page: scope.own(SharedWords.create(PAGE_BYTES), (words) => words.release()),
      bell: scope.own(createBell(), (bell) => bell.close()),
    }));
    const words = ControlWords.create(control.cpu.buffer, { ...shape, firstPosition });
    return writerParts({ label, memory: new SlotMemory(buffer, shape), control, words, roomBell, places });
  });
}

/**
 * All of a channel, for a writer that follows another. The descriptors stay the caller's.
 * @throws INVALID_DESCRIPTOR, PROTOCOL_MISMATCH
 */
export function openWriterParts<D extends DType>(
  label: string,
  buffer: DeviceBuffer,
  shape: ChannelShape<D>,
  fds: readonly OwnedFd[],
): WriterParts<D> {
  return acquireIn((scope) => {
    const control = scope.own(SharedWords.import(fdAt(fds, 1), undefined, "read-write"), (words) => words.release());
    const words = ControlWords.open(label, control.cpu.buffer, control.byteLength, shape);
    const roomBell = scope.own(fdAt(fds, 2).duplicate(), (bell) => bell.close());
    const places = Array.from({ length: shape.readersMax }, (_, place) => ({
      page: scope.own(SharedWords.import(fdAt(fds, 3 + 2 * place)), (words) => words.release()),
      bell: scope.own(fdAt(fds, 4 + 2 * place).duplicate(), (bell) => bell.close()),
    }));
    return writerParts({ label, memory: new SlotMemory(buffer, shape), control, words, roomBell, places });
  });
}

/**
 * A reader's part: memory, control file, room bell, page and bell. The descriptors stay the caller's.
 * @throws INVALID_DESCRIPTOR, PROTOCOL_MISMATCH
 */
export function openReaderParts<D extends DType>(
  label: string,
  buffer: DeviceBuffer,
  shape: ChannelShape<D>,
  { fds, place, lease }: { readonly fds: readonly OwnedFd[]; readonly place: number; readonly lease: number },
): ReaderParts<D> {
  return acquireIn((scope) => {
    const control = scope.own(SharedWords.import(fdAt(fds, 1)), (words) => words.release());
    const words = ControlWords.open(label, control.cpu.buffer, control.byteLength, shape);
    const roomBell = scope.own(fdAt(fds, 2).duplicate(), (bell) => bell.close());
    const page = scope.own(SharedWords.import(fdAt(fds, 3), undefined, "read-write"), (words) => words.release());
    const bell = scope.own(fdAt(fds, 4).duplicate(), (bell) => bell.close());
    const memory = new SlotMemory(buffer, shape);
    const close = () =>
      releaseAll([
        () => memory.close(),
        () => page.release(),
        () => control.release(),
        () => roomBell.close(),
        () => bell.close(),
      ]);
    return { label, memory, control, words, roomBell, page, bell, place, lease, close };
  });
}

/** Everything that others need to read the channel and to follow its writer, but for the memory's descriptor. The caller owns them. */
export function exportParts({ control, roomBell, places }: WriterParts): OwnedFd[] {
  return acquireIn((scope) => {
    const own = (fd: OwnedFd) => scope.own(fd, (fd) => fd.close());
    const fds = [own(control.duplicateFd()), own(roomBell.duplicate())];
    for (const { page, bell } of places) fds.push(own(page.duplicateFd()), own(bell.duplicate()));
    return fds;
  });
}

function writerParts<D extends DType>(parts: Omit<WriterParts<D>, "close">): WriterParts<D> {
  const { memory, control, places, roomBell } = parts;
  const close = () =>
    releaseAll([
      () => memory.close(),
      ...places.flatMap(({ page, bell }) => [() => page.release(), () => bell.close()]),
      () => control.release(),
      () => roomBell.close(),
    ]);
  return { ...parts, close };
}

function fdAt(fds: readonly OwnedFd[], index: number): OwnedFd {
  const fd = fds[index];
  if (fd === undefined) throw new TypeError(`a channel without descriptor ${index}`);
  return fd;
}
