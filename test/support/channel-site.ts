/**
 * A channel without a hub, in one process. The test does the hub's work: seats, and the end of dead
 * writers and readers.
 */

import type { DType } from "../../src/array/dtype.js";
import { arrayByteLength } from "../../src/array/layout.js";
import type { ReaderOptions } from "../../src/channel/channel-options.js";
import {
  type ChannelShape,
  createParts,
  exportParts,
  openReaderParts,
  type WriterParts,
} from "../../src/channel/channel-parts.js";
import { ChannelReader } from "../../src/channel/channel-reader.js";
import { ChannelWriter } from "../../src/channel/channel-writer.js";
import type { DriverOpener } from "../../src/driver/open-driver.js";
import { Device } from "../../src/gpu/device.js";
import { DeviceBuffer } from "../../src/gpu/memory/device-buffer.js";
import { ringBell } from "../../src/os/bell.js";
import { readFilePart, writeFilePart } from "../../src/os/file-calls.js";
import type { OwnedFd } from "../../src/os/owned-fd.js";
import { beginSeat, endSeat, endWriter, type WordsFile } from "../../src/ring/channel-end.js";
import { memorySlots } from "../../src/ring/channel-layout.js";

export interface SiteOptions extends Partial<ChannelShape> {
  readonly device?: string;
  readonly openDriver?: DriverOpener;
  readonly firstPosition?: number;
}

export class ChannelSite {
  readonly device: Device;
  readonly shape: ChannelShape;
  readonly writer: ChannelWriter;
  readonly #parts: WriterParts;
  readonly #memory: OwnedFd;
  /** The descriptors that a hub would have, without the memory. */
  readonly #fds: readonly OwnedFd[];
  readonly #taken = new Set<number>();
  #leases = 0;
  #writerClosed = false;

  constructor({ device = "host", openDriver, firstPosition = 0, ...given }: SiteOptions = {}) {
    const dtype: DType = given.dtype ?? "uint8";
    const shape = given.shape ?? [64];
    const slotBytes = arrayByteLength(dtype, shape);
    this.shape = {
      dtype,
      shape,
      slotBytes,
      slotStride: Math.ceil(slotBytes / 256) * 256,
      slots: 4,
      readersMax: 2,
      metaBytesMax: 64,
      whenFull: "wait",
      whenWriterGone: "end",
      ...given,
    };
    this.device = Device.open(device, openDriver);
    const buffer = DeviceBuffer.allocate(
      this.device,
      memorySlots(this.shape) * this.shape.slotStride,
      {
        label: "site",
      },
    );
    this.#parts = createParts("site", buffer, this.shape, firstPosition);
    this.#memory = buffer.exportFd();
    this.#fds = exportParts(this.#parts);
    this.writer = new ChannelWriter(this.#parts, () => {
      this.#writerClosed = true;
    });
  }

  /** The words of the control file. */
  get control(): BigInt64Array {
    return this.#parts.control.cpu;
  }

  /** The words of the page of a reader's seat. */
  page(seat: number): BigInt64Array {
    return (this.#parts.seats[seat] as WriterParts["seats"][number]).page.cpu;
  }

  get writerClosed(): boolean {
    return this.#writerClosed;
  }

  reader(options: ReaderOptions & { readonly device?: Device } = {}): ChannelReader {
    const device = options.device ?? this.device;
    const place = Array.from({ length: this.shape.readersMax }, (_, index) => index).find(
      (index) => !this.#taken.has(index),
    );
    if (place === undefined) throw new RangeError("all places are taken");
    this.#taken.add(place);
    this.#leases += 1;
    const [control, roomBell] = this.#fds as [OwnedFd, OwnedFd];
    const [page, bell] = [this.#fds[2 + 2 * place] as OwnedFd, this.#fds[3 + 2 * place] as OwnedFd];
    beginSeat(wordsFile(page), this.#leases);
    const buffer = DeviceBuffer.import(device, this.#memory, {
      label: "site",
      byteLength: memorySlots(this.shape) * this.shape.slotStride,
      allocationByteLength: this.#parts.memory.buffer.allocationByteLength,
      access: "read",
    });
    const fds = [this.#memory, control, roomBell, page, bell];
    const parts = openReaderParts("site", buffer, this.shape, {
      fds,
      seat: place,
      lease: this.#leases,
    });
    const leave = () => {
      endSeat(wordsFile(page));
      ringBell(roomBell);
      this.#taken.delete(place);
    };
    try {
      return new ChannelReader(parts, options, leave);
    } catch (error) {
      parts.close();
      leave();
      throw error;
    }
  }

  /** Ends the writer as the hub does after its process has died. */
  endWriter(): void {
    endWriter(
      wordsFile(this.#fds[0] as OwnedFd),
      this.shape.whenWriterGone === "wait" ? "awaited" : "gone",
    );
    for (let place = 0; place < this.shape.readersMax; place += 1)
      ringBell(this.#fds[3 + 2 * place] as OwnedFd);
  }

  close(): void {
    this.writer.close();
    this.#memory.close();
    for (const fd of this.#fds) fd.close();
    this.device.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

export function wordsFile(fd: OwnedFd): WordsFile {
  return {
    read: (byteOffset, bytes) => void readFilePart(fd, bytes, byteOffset),
    write: (byteOffset, bytes) => writeFilePart(fd, bytes, byteOffset),
  };
}
