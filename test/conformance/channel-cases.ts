/**
 * Channels on the driver under test: their ends, messages of one repeated number, gates for
 * streams.
 */
import assert from "node:assert/strict";
import type { ReaderOptions } from "../../src/channel/channel-options.js";
import type { ChannelReader } from "../../src/channel/channel-reader.js";
import type { ChannelWriter } from "../../src/channel/channel-writer.js";
import type { ReceivedSlot } from "../../src/channel/received-slot.js";
import type { GpuDriver } from "../../src/driver/gpu-driver.js";
import { DeviceArray } from "../../src/gpu/arrays/device-array.js";
import type { Stream } from "../../src/gpu/order/stream.js";
import type { Timeline } from "../../src/gpu/order/timeline.js";
import { ChannelSite, type SiteOptions } from "../support/channel-site.js";
import type { ConformanceRig } from "./conformance-rig.js";

/** How many int32 elements a message has. */
export const ELEMENTS = 4096;
export const LATE = { timeoutMs: 30_000 };

export class ChannelCase {
  readonly site: ChannelSite;
  readonly #rig: ConformanceRig;
  readonly #gates: Timeline[] = [];
  readonly #streams: Stream[] = [];
  readonly #readers: ChannelReader[] = [];
  /** WHY: the streams of the libcuda in C make progress only when polled. */
  readonly #asking = setInterval(() => {
    for (const stream of this.#streams) stream.device.driver.isIdle(stream.handle);
  }, 1);

  constructor(rig: ConformanceRig, options: SiteOptions = {}) {
    const device = rig.kind === "host" ? "host" : "cuda:0";
    const openDriver = () => lasting(rig.driver);
    this.#rig = rig;
    this.site = rig.own(
      new ChannelSite({ device, openDriver, dtype: "int32", shape: [ELEMENTS], ...options }),
      () => this.#end(),
    );
  }

  get writer(): ChannelWriter {
    return this.site.writer;
  }

  reader(options: ReaderOptions = {}): ChannelReader {
    const reader = this.site.reader(options);
    this.#readers.push(reader);
    return reader;
  }

  stream(): Stream {
    const stream = this.site.device.createStream();
    this.#streams.push(stream);
    return stream;
  }

  /** Holds a stream back until the gate is opened, at the latest by the end of the test. */
  gate(stream: Stream): { open(): void } {
    const gate = this.site.device.createTimeline();
    this.#gates.push(gate);
    stream.wait(gate, 1);
    return { open: () => gate.signal(1) };
  }

  /** An array of `count` messages in its own memory. */
  messages(count: number): DeviceArray<"int32"> {
    const array = DeviceArray.allocate(this.site.device, {
      dtype: "int32",
      shape: [count, ELEMENTS],
    });
    return this.#rig.own(array, (array) => array.close());
  }

  /** Enqueues a fill of all elements with this value. */
  fill(stream: Stream, array: DeviceArray, value: number): void {
    array.buffer.enqueue("write", stream, (mapped) => {
      const pointer = mapped.pointerAt(array.layout.byteOffset);
      stream.device.driver.fill(
        stream.handle,
        pointer,
        { elementBytes: 4, value },
        array.elementCount,
      );
    });
  }

  /** Commits a message of this value, written by a stream. */
  async send(stream: Stream, value: number): Promise<void> {
    using slot = await this.writer.loan({ stream, ...LATE });
    this.fill(stream, slot.array, value);
    slot.commit({ stream });
  }

  async #end(): Promise<void> {
    for (const gate of this.#gates) if (gate.value < 1n) gate.signal(1);
    for (const stream of this.#streams) await stream.synchronize(LATE).catch(() => {});
    clearInterval(this.#asking);
    for (const stream of this.#streams) stream.close();
    for (const gate of this.#gates) gate.close();
    for (const reader of this.#readers) reader.close();
    this.site.close();
  }
}

/** Waits for the next message, within the time limit of a test. */
export async function nextOf(reader: ChannelReader): Promise<ReceivedSlot> {
  const slot = await reader.next(LATE);
  assert.ok(slot !== undefined, "the channel has ended");
  return slot;
}

export async function assertValue(array: DeviceArray, value: number): Promise<void> {
  const found = await array.read(LATE);
  assert.deepEqual(found, new Int32Array(array.elementCount).fill(value));
}

/** The suite closes the driver, because many tests share it. */
function lasting(driver: GpuDriver): GpuDriver {
  return new Proxy(driver, {
    get(target, name) {
      if (name === "close") return () => {};
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === "function"
        ? (...values: unknown[]) => Reflect.apply(member, target, values)
        : member;
    },
  });
}
