/** What the actors of channels share: a channel between the two processes, waits that spin, and messages that say their number. */
import type { DType } from "../../src/array/dtype.js";
import { arrayByteLength } from "../../src/array/layout.js";
import { type ChannelShape, createParts, exportParts, openReaderParts } from "../../src/channel/channel-parts.js";
import { ChannelReader, type ReaderOptions } from "../../src/channel/channel-reader.js";
import { ChannelWriter } from "../../src/channel/channel-writer.js";
import type { LoanedSlot } from "../../src/channel/loaned-slot.js";
import type { ReceivedSlot } from "../../src/channel/received-slot.js";
import type { Device } from "../../src/gpu/device.js";
import { DeviceBuffer } from "../../src/gpu/device-buffer.js";
import type { Stream } from "../../src/gpu/stream.js";
import { readFilePart, writeFilePart } from "../../src/os/file-calls.js";
import type { OwnedFd } from "../../src/os/owned-fd.js";
import { beginPlace, type WordsFile } from "../../src/ring/channel-end.js";
import { Limit, Peer } from "./actor.js";

export const MESSAGE_BYTES = 64;

export interface Wanted<D extends DType> {
  readonly dtype: D;
  readonly shape: readonly number[];
  readonly slots: number;
  readonly readersMax?: number;
}

/** The two processes, one of which creates what the other opens. */
export class ChannelPair {
  readonly device: Device;
  readonly peer = new Peer();
  readonly #closes: (() => void)[] = [];

  constructor(device: Device) {
    this.device = device;
  }

  create<D extends DType>(wanted: Wanted<D>): ChannelWriter<D> {
    const slotBytes = arrayByteLength(wanted.dtype, wanted.shape);
    const slotStride = Math.ceil(slotBytes / 256) * 256;
    const rest = { metaBytesMax: 0, whenFull: "wait", whenWriterGone: "end" } as const;
    const shape: ChannelShape<D> = { readersMax: 1, ...wanted, ...rest, slotBytes, slotStride };
    const buffer = DeviceBuffer.allocate(this.device, shape.slots * slotStride);
    const parts = createParts("bench", buffer, shape);
    const { allocationByteLength } = buffer;
    this.peer.sendJson({ shape, allocationByteLength }, [buffer.exportFd(), ...exportParts(parts)]);
    const writer = new ChannelWriter(parts, () => {});
    this.#closes.push(() => writer.close());
    this.peer.meet();
    return writer;
  }

  /** A reader at each place of what the other process has created. */
  open<D extends DType = DType>(options: ReaderOptions = {}): [ChannelReader<D>, ...ChannelReader<D>[]] {
    const { bytes, fds } = this.peer.receive();
    const { shape, allocationByteLength } = JSON.parse(Buffer.from(bytes).toString());
    const [memory, control, roomBell, ...places] = fds as [OwnedFd, OwnedFd, OwnedFd, ...OwnedFd[]];
    const readers = Array.from({ length: shape.readersMax }, (_, place) => {
      const [page, bell] = places.slice(2 * place) as [OwnedFd, OwnedFd];
      beginPlace(wordsFile(page), place + 1);
      const byteLength = shape.slots * shape.slotStride;
      const claims = { label: "bench", byteLength, allocationByteLength, access: "read" } as const;
      const buffer = DeviceBuffer.import(this.device, memory, claims);
      const given = { fds: [memory, control, roomBell, page, bell], place, lease: place + 1 };
      return new ChannelReader<D>(openReaderParts("bench", buffer, shape, given), options, () => {});
    });
    for (const reader of readers) this.#closes.push(() => reader.close());
    this.peer.meet();
    return readers as [ChannelReader<D>, ...ChannelReader<D>[]];
  }

  /** When both have done everything: a channel ends with its writer. */
  end(pump?: Stream): void {
    this.peer.meet(pump);
    for (const close of this.#closes.reverse()) close();
    process.exit(0);
  }
}

function wordsFile(fd: OwnedFd): WordsFile {
  return {
    read: (byteOffset, bytes) => void readFilePart(fd, bytes, byteOffset),
    write: (byteOffset, bytes) => writeFilePart(fd, bytes, byteOffset),
  };
}

/** A slot for the next message; spins where none is free. @param pump a stream of the host device that goes on meanwhile */
export function loanSpinning<D extends DType>(writer: ChannelWriter<D>, stream?: Stream, pump?: Stream): LoanedSlot<D> {
  const slot = writer.tryLoan(stream === undefined ? undefined : { stream });
  if (slot !== undefined) return slot;
  const limit = new Limit("room in the channel");
  for (;;) {
    const slot = writer.tryLoan(stream === undefined ? undefined : { stream });
    if (slot !== undefined) return slot;
    if (pump !== undefined) pump.isIdle();
    limit.check();
  }
}

/** The next message; spins until it is there. */
export function nextSpinning<D extends DType>(reader: ChannelReader<D>, pump?: Stream): ReceivedSlot<D> {
  const slot = reader.tryNext();
  if (slot !== undefined) return slot;
  const limit = new Limit("a message of the channel");
  for (;;) {
    const slot = reader.tryNext();
    if (slot !== undefined) return slot;
    if (pump !== undefined) pump.isIdle();
    limit.check();
  }
}

/** Says the number of a message in its first and last word. */
export function setNumber(bytes: Uint8Array, number: number): void {
  const last = bytes.length - 4;
  bytes[0] = bytes[last] = number;
  bytes[1] = bytes[last + 1] = number >> 8;
  bytes[2] = bytes[last + 2] = number >> 16;
  bytes[3] = bytes[last + 3] = number >> 24;
}

/** @throws where the two words are not of one message */
export function numberOf(bytes: Uint8Array): number {
  const first = wordAt(bytes, 0);
  const last = wordAt(bytes, bytes.length - 4);
  if (first !== last) throw new Error(`A message says ${first} and ${last}`);
  return first;
}

function wordAt(bytes: Uint8Array, at: number): number {
  const [a = 0, b = 0, c = 0, d = 0] = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
  return a + (b << 8) + (c << 16) + d * 2 ** 24;
}
