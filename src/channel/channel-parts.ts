/**
 * The parts of a channel on either side: memory, words and bells. They are created here or come
 * from another process, and close together. docs/protocol.md gives the order of the descriptors.
 */
import type { DType } from "../array/dtype.js";
import type { Deadline } from "../base/deadline.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import type { DeviceBuffer } from "../gpu/memory/device-buffer.js";
import { SharedWords } from "../gpu/order/shared-words.js";
import { createBell } from "../os/bell.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { preallocateFile } from "../os/preallocate.js";
import { channelFdsAt, readerFdsAt } from "../ring/channel-fds.js";
import { type ChannelFacts, controlByteLength, PAGE_BYTES } from "../ring/channel-layout.js";
import { createControlFile, openControlFile } from "../ring/control-file.js";
import type { ControlWords } from "../ring/control-words.js";
import { Ending } from "./ending.js";
import { SlotMemory, type SlotShape } from "./slot-memory.js";

export interface ChannelShape<D extends DType = DType>
  extends SlotShape<D>,
    Omit<ChannelFacts, "firstPosition"> {}

/** The parts of the writer. */
export interface WriterParts<D extends DType = DType> {
  readonly label: string;
  readonly memory: SlotMemory<D>;
  readonly control: SharedWords;
  readonly words: ControlWords;
  readonly roomBell: OwnedFd;
  readonly seats: readonly SeatParts[];
  readonly ending: Ending;
  close(): void;
}

export interface SeatParts {
  readonly page: SharedWords;
  readonly bell: OwnedFd;
}

/** The parts of a reader. */
export interface ReaderParts<D extends DType = DType> {
  readonly label: string;
  readonly memory: SlotMemory<D>;
  readonly control: SharedWords;
  readonly words: ControlWords;
  readonly roomBell: OwnedFd;
  readonly page: SharedWords;
  readonly bell: OwnedFd;
  readonly seat: number;
  readonly lease: number;
  readonly ending: Ending;
  close(): void;
}

/** Creates a channel in the memory of a buffer. Takes over the buffer, unless it throws. */
export function createParts<D extends DType>(
  label: string,
  buffer: DeviceBuffer,
  shape: ChannelShape<D>,
  firstPosition = 0,
): WriterParts<D> {
  return acquireIn((scope) => {
    const control = scope.own(SharedWords.create(controlByteLength(shape)), (words) =>
      words.release(),
    );
    const roomBell = scope.own(createBell(), (bell) => bell.close());
    const seats = Array.from({ length: shape.readersMax }, () => ({
      page: scope.own(SharedWords.create(PAGE_BYTES), (words) => words.release()),
      bell: scope.own(createBell(), (bell) => bell.close()),
    }));
    const words = createControlFile(control.cpu.buffer, { ...shape, firstPosition });
    return writerParts(label, buffer, shape, { control, words, roomBell, seats });
  });
}

/** Takes the pages of the words, which are memory of the host on every device. */
export async function preallocateWords(
  { label: name, control, seats }: WriterParts,
  deadline: Deadline,
): Promise<void> {
  for (const words of [control, ...seats.map(({ page }) => page)]) {
    using file = words.duplicateFd();
    await preallocateFile(file, words.byteLength, { name, deadline });
  }
}

/**
 * Opens all parts of a channel, for its next writer. The caller keeps the descriptors.
 * @throws INVALID_DESCRIPTOR, PROTOCOL_MISMATCH
 */
export function openWriterParts<D extends DType>(
  label: string,
  buffer: DeviceBuffer,
  shape: ChannelShape<D>,
  fds: readonly OwnedFd[],
): WriterParts<D> {
  const at = channelFdsAt;
  return acquireIn((scope) => {
    const control = scope.own(
      SharedWords.import(fdAt(fds, at.control), undefined, "read-write"),
      (words) => words.release(),
    );
    const words = openControlFile(label, control.cpu.buffer, control.byteLength, shape);
    const roomBell = scope.own(fdAt(fds, at.roomBell).duplicate(), (bell) => bell.close());
    const seats = Array.from({ length: shape.readersMax }, (_, seat) => ({
      page: scope.own(SharedWords.import(fdAt(fds, at.page(seat))), (words) => words.release()),
      bell: scope.own(fdAt(fds, at.bell(seat)).duplicate(), (bell) => bell.close()),
    }));
    return writerParts(label, buffer, shape, { control, words, roomBell, seats });
  });
}

/**
 * Opens a reader's parts: memory, control file, room bell, page and bell. The caller keeps the
 * descriptors.
 * @throws INVALID_DESCRIPTOR, PROTOCOL_MISMATCH
 */
export function openReaderParts<D extends DType>(
  label: string,
  buffer: DeviceBuffer,
  shape: ChannelShape<D>,
  {
    fds,
    seat,
    lease,
  }: { readonly fds: readonly OwnedFd[]; readonly seat: number; readonly lease: number },
): ReaderParts<D> {
  const at = readerFdsAt;
  return acquireIn((scope) => {
    const control = scope.own(SharedWords.import(fdAt(fds, at.control)), (words) =>
      words.release(),
    );
    const words = openControlFile(label, control.cpu.buffer, control.byteLength, shape);
    const roomBell = scope.own(fdAt(fds, at.roomBell).duplicate(), (bell) => bell.close());
    const page = scope.own(
      SharedWords.import(fdAt(fds, at.page), undefined, "read-write"),
      (words) => words.release(),
    );
    const bell = scope.own(fdAt(fds, at.bell).duplicate(), (bell) => bell.close());
    const memory = new SlotMemory(buffer, shape);
    const close = () =>
      releaseAll([
        () => memory.close(),
        () => page.release(),
        () => control.release(),
        () => roomBell.close(),
        () => bell.close(),
      ]);
    const ending = new Ending();
    return { label, memory, control, words, roomBell, page, bell, seat, lease, ending, close };
  });
}

/**
 * Duplicates the descriptors that readers and the next writer need, without the memory's. The
 * caller owns them.
 */
export function exportParts({ control, roomBell, seats }: WriterParts): OwnedFd[] {
  return acquireIn((scope) => {
    const own = (fd: OwnedFd) => scope.own(fd, (fd) => fd.close());
    const fds = [own(control.duplicateFd()), own(roomBell.duplicate())];
    for (const { page, bell } of seats) fds.push(own(page.duplicateFd()), own(bell.duplicate()));
    return fds;
  });
}

function writerParts<D extends DType>(
  label: string,
  buffer: DeviceBuffer,
  shape: ChannelShape<D>,
  parts: Pick<WriterParts, "control" | "words" | "roomBell" | "seats">,
): WriterParts<D> {
  const { control, seats, roomBell } = parts;
  const memory = new SlotMemory(buffer, shape);
  const close = () =>
    releaseAll([
      () => memory.close(),
      ...seats.flatMap(({ page, bell }) => [() => page.release(), () => bell.close()]),
      () => control.release(),
      () => roomBell.close(),
    ]);
  return { label, memory, ...parts, ending: new Ending(), close };
}

function fdAt(fds: readonly OwnedFd[], index: number): OwnedFd {
  const fd = fds[index];
  if (fd === undefined) throw new TypeError(`a channel without descriptor ${index}`);
  return fd;
}
