/** What both sides of a service get and give: a message in place, until it is released, and a slot to be filled. */
import type { DType } from "../array/dtype.js";
import { CudaIpcError } from "../base/errors.js";
import type { LoanedSlot } from "../channel/loaned-slot.js";
import type { JsonValue } from "../channel/message-meta.js";
import type { ReceivedSlot } from "../channel/received-slot.js";
import type { DeviceArray } from "../gpu/device-array.js";
import type { Stream } from "../gpu/stream.js";
import type { Arrived } from "./envelope.js";

/** A slot of a request or a reply, to be filled. What is done with it is not its user's: it is sent when the user is done. */
export class SlotToFill<D extends DType = DType> {
  readonly #slot: LoanedSlot<D>;

  constructor(slot: LoanedSlot<D>) {
    this.#slot = slot;
  }

  /** The whole slot. @throws CLOSED once it was sent or given back */
  get array(): DeviceArray<D> {
    return this.#slot.array;
  }

  /** The whole slot as bytes, on the host device. @throws CLOSED, UNSUPPORTED on a GPU */
  get bytes(): Uint8Array {
    return this.#slot.bytes;
  }
}

/** A request or a reply that was received: in place, until it is released. */
export class ServiceMessage<D extends DType = DType> {
  readonly byteLength: number;
  /** When it was committed, in milliseconds since 1970, by the sender's clock. */
  readonly timestampMs: number;
  readonly #slot: ReceivedSlot<D>;
  readonly #arrived: Arrived;
  readonly #onRelease: () => void;

  constructor(slot: ReceivedSlot<D>, arrived: Arrived, onRelease: () => void = () => {}) {
    this.byteLength = slot.byteLength;
    this.timestampMs = slot.timestampMs;
    this.#slot = slot;
    this.#arrived = arrived;
    this.#onRelease = onRelease;
  }

  /** Its data, in place. It ends with the message; await what reads it before. @throws CLOSED, CHANNEL_CORRUPT */
  get array(): DeviceArray<D> {
    return this.#slot.array;
  }

  /** Its data as bytes, in place, on the host device. @throws CLOSED, UNSUPPORTED on a GPU */
  get bytes(): Uint8Array {
    return this.#slot.bytes;
  }

  /** The meta bytes; empty where there are none. */
  get meta(): Uint8Array {
    return this.#arrived.meta;
  }

  /** The meta as the value that was given; undefined where it is bytes or none. @throws CHANNEL_CORRUPT */
  get json(): JsonValue | undefined {
    return this.#arrived.json;
  }

  /** Gives its slot back, in the order of a stream where there is one. Releasing it again changes nothing. */
  release(options: { readonly stream?: Stream | undefined } = {}): void {
    if (!this.#slot.open) return;
    this.#slot.release(options);
    this.#onRelease();
  }

  [Symbol.dispose](): void {
    this.release();
  }
}

/** As a handler gets it. */
export class ServiceRequest<D extends DType = DType> extends ServiceMessage<D> {
  readonly number: number;
  /** The microsecond of the machine's monotonic clock from which on nobody waits; undefined where there is none. */
  readonly deadlineMicros: number | undefined;
  readonly #abort = new AbortController();

  constructor(slot: ReceivedSlot<D>, arrived: Arrived) {
    super(slot, arrived);
    this.number = arrived.number;
    this.deadlineMicros = arrived.deadlineMicros;
  }

  /** Aborted when nobody waits for the reply any more: the client cancelled, its deadline passed, it is gone, or this worker is closed. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** For the service. */
  giveUp(code: "ABORTED" | "TIMEOUT" | "PEER_GONE" | "CLOSED", found: string): void {
    if (this.signal.aborted) return;
    this.#abort.abort(new CudaIpcError(code, `Cannot answer request ${this.number}: ${found}`));
  }
}
