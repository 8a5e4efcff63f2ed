/**
 * What both sides of a service exchange: a received message, valid until it is released, and a slot
 * to fill.
 */
import type { DType } from "../array/dtype.js";
import { CudaIpcError } from "../base/errors.js";
import type { LoanedSlot } from "../channel/loaned-slot.js";
import type { JsonValue } from "../channel/message-meta.js";
import type { ReceivedSlot } from "../channel/received-slot.js";
import type { DeviceArray } from "../gpu/arrays/device-array.js";
import type { Stream } from "../gpu/order/stream.js";
import type { ReceivedEnvelope } from "./envelope.js";

/** The slot of a request or reply. Fill it. It is sent when your callback returns. */
export class SlotToFill<D extends DType = DType> {
  readonly #slot: LoanedSlot<D>;

  constructor(slot: LoanedSlot<D>) {
    this.#slot = slot;
  }

  /** The whole slot. @throws CLOSED after it was sent or returned */
  get array(): DeviceArray<D> {
    return this.#slot.array;
  }

  /** The whole slot as bytes, on the host device. @throws CLOSED; UNSUPPORTED on a GPU */
  get bytes(): Uint8Array {
    return this.#slot.bytes;
  }
}

/** A received request or reply. Its data stays in place until you release it. */
export class ServiceMessage<D extends DType = DType> {
  readonly byteLength: number;
  /** When it was sent: milliseconds since 1970, by the sender's clock. */
  readonly timestampMs: number;
  readonly #slot: ReceivedSlot<D>;
  readonly #envelope: ReceivedEnvelope;

  constructor(slot: ReceivedSlot<D>, envelope: ReceivedEnvelope) {
    this.byteLength = slot.byteLength;
    this.timestampMs = slot.timestampMs;
    this.#slot = slot;
    this.#envelope = envelope;
  }

  /**
   * The data, in place. After `release()` the slot is reused: copy what you need before that.
   * @throws CLOSED, CHANNEL_CORRUPT
   */
  get array(): DeviceArray<D> {
    return this.#slot.array;
  }

  /** The data as bytes, in place, on the host device. @throws CLOSED; UNSUPPORTED on a GPU */
  get bytes(): Uint8Array {
    return this.#slot.bytes;
  }

  /** The meta bytes. Empty if there are none. */
  get meta(): Uint8Array {
    return this.#envelope.meta;
  }

  /**
   * The meta as the JSON value that was sent. Undefined if the meta is bytes or empty.
   * @throws CHANNEL_CORRUPT
   */
  get json(): JsonValue | undefined {
    return this.#envelope.json;
  }

  /**
   * Releases the slot, after the stream's work if you give a stream. A second call does nothing.
   */
  release(options: { readonly stream?: Stream | undefined } = {}): void {
    if (this.#slot.open) this.#slot.release(options);
  }

  [Symbol.dispose](): void {
    this.release();
  }
}

/** A request as the handler receives it. */
export class ServiceRequest<D extends DType = DType> extends ServiceMessage<D> {
  readonly number: number;
  /** When the client stops waiting, in microseconds of CLOCK_MONOTONIC. Undefined if never. */
  readonly deadlineMicros: number | undefined;
  readonly #abort = new AbortController();

  constructor(slot: ReceivedSlot<D>, envelope: ReceivedEnvelope) {
    super(slot, envelope);
    this.number = envelope.number;
    this.deadlineMicros = envelope.deadlineMicros;
  }

  /**
   * Aborted when nobody waits for the reply: the client cancelled, its deadline passed, it is gone,
   * or this worker is closing.
   */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** For the service. */
  giveUp(
    code: "ABORTED" | "TIMEOUT" | "PEER_GONE" | "CLOSED",
    found: string,
    cause?: unknown,
  ): void {
    if (this.signal.aborted) return;
    const message = `Cannot answer request ${this.number}: ${found}`;
    this.#abort.abort(new CudaIpcError(code, message, { cause }));
  }
}
