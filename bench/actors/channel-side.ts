/**
 * Common code of the channel actors: a channel between the two processes, waits that spin, and
 * messages that contain their number. The fourth argument is the hub's socket.
 */

import type { DType } from "../../src/array/dtype.js";
import type { ReaderOptions } from "../../src/channel/channel-options.js";
import type { ChannelReader } from "../../src/channel/channel-reader.js";
import type { ChannelWriter } from "../../src/channel/channel-writer.js";
import type { LoanedSlot } from "../../src/channel/loaned-slot.js";
import type { ReceivedSlot } from "../../src/channel/received-slot.js";
import { connect } from "../../src/client/connect.js";
import type { Hub } from "../../src/client/hub.js";
import type { Device } from "../../src/gpu/device.js";
import type { Stream } from "../../src/gpu/order/stream.js";
import { deviceName, extra, Limit, Peer } from "./actor.js";

export const MESSAGE_BYTES = 64;

export interface Wanted<D extends DType> {
  readonly dtype: D;
  readonly shape: readonly number[];
  readonly slots: number;
  readonly readersMax?: number;
}

/** The two processes. One creates what the other opens. */
export class ChannelPair {
  readonly device: Device;
  readonly peer = new Peer();
  readonly #hub: Hub;
  readonly #ends: (() => void)[] = [];
  #created = 0;

  private constructor(hub: Hub) {
    this.#hub = hub;
    this.device = hub.device(deviceName);
  }

  static async connect(): Promise<ChannelPair> {
    return new ChannelPair(
      await connect({ socket: extra[0] ?? "", device: deviceName, start: false }),
    );
  }

  async create<D extends DType>(wanted: Wanted<D>): Promise<ChannelWriter<D>> {
    this.#created += 1;
    const name = `channel-${process.pid}-${this.#created}`;
    const readersMax = wanted.readersMax ?? 1;
    const writer = await this.#hub.createChannel(name, {
      ...wanted,
      readersMax,
      metaBytesMax: 0,
      whenFull: "wait",
    });
    this.#ends.push(() => writer.close());
    this.peer.sendJson({ name, readersMax });
    // All readers are open.
    this.peer.receive();
    return writer;
  }

  /** Opens a reader for each reader that the channel of the other process allows. */
  async open<D extends DType = DType>(
    options: ReaderOptions = {},
  ): Promise<[ChannelReader<D>, ...ChannelReader<D>[]]> {
    const { name, readersMax } = this.peer.receiveJson() as { name: string; readersMax: number };
    const readers: ChannelReader<D>[] = [];
    for (let seat = 0; seat < readersMax; seat += 1) {
      const reader = (await this.#hub.openChannel(name, {
        ...options,
        from: "oldest",
      })) as ChannelReader<D>;
      this.#ends.push(() => reader.close());
      readers.push(reader);
    }
    this.peer.sendJson("here");
    return readers as [ChannelReader<D>, ...ChannelReader<D>[]];
  }

  /** Waits until both processes are done, because a channel ends with its writer. */
  async end(): Promise<void> {
    this.peer.meet();
    for (const end of this.#ends.reverse()) end();
    await this.#hub.close();
  }
}

/**
 * Spins until a slot is free. @param pump a stream of the host device that must advance meanwhile
 */
export function loanSpinning<D extends DType>(
  writer: ChannelWriter<D>,
  stream?: Stream,
  pump?: Stream,
): LoanedSlot<D> {
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

/** Spins until the next message is there. */
export function nextSpinning<D extends DType>(
  reader: ChannelReader<D>,
  pump?: Stream,
): ReceivedSlot<D> {
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

/** Writes the number of a message to its first and last word. */
export function setNumber(bytes: Uint8Array, number: number): void {
  const last = bytes.length - 4;
  bytes[0] = bytes[last] = number;
  bytes[1] = bytes[last + 1] = number >> 8;
  bytes[2] = bytes[last + 2] = number >> 16;
  bytes[3] = bytes[last + 3] = number >> 24;
}

/** @throws if the two words do not belong to one message */
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
