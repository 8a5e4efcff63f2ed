/** A channel without a hub, and its observer. A test writes any value into its words. */
import { ChannelObserver } from "../../src/channel/channel-observer.js";
import { createParts, exportParts, type WriterParts } from "../../src/channel/channel-parts.js";
import { Device } from "../../src/gpu/device.js";
import { DeviceBuffer } from "../../src/gpu/memory/device-buffer.js";
import { writeFilePart } from "../../src/os/file-calls.js";
import type { OwnedFd } from "../../src/os/owned-fd.js";
import { control } from "../../src/ring/channel-layout.js";

const shape = {
  dtype: "uint8",
  shape: [8],
  slotBytes: 8,
  slotStride: 8,
  slots: 512,
  readersMax: 1,
  metaBytesMax: 0,
  whenFull: "wait",
  whenWriterGone: "end",
} as const;

export class ObservedChannel {
  readonly slots = shape.slots;
  readonly observer: ChannelObserver;
  readonly #device = Device.open("host");
  readonly #parts: WriterParts;
  readonly #fds: readonly OwnedFd[];

  constructor() {
    const buffer = DeviceBuffer.allocate(this.#device, shape.slots * shape.slotStride);
    this.#parts = createParts("site", buffer, shape);
    this.#fds = exportParts(this.#parts);
    const [words, , page] = this.#fds as [OwnedFd, OwnedFd, OwnedFd];
    this.observer = new ChannelObserver("site", shape, [words, page], () => {});
  }

  /** Writes a word of 4 or 8 bytes into the control file. */
  write(word: keyof typeof control, value: bigint): void {
    const bytes = new Uint8Array(BigInt64Array.of(value).buffer);
    const size = word === "state" ? 4 : 8;
    writeFilePart(this.#fds[0] as OwnedFd, bytes.subarray(0, size), control[word]);
  }

  [Symbol.dispose](): void {
    this.observer.close();
    for (const fd of this.#fds) fd.close();
    this.#parts.close();
    this.#device.close();
  }
}
