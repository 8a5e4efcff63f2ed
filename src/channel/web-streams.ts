/**
 * Channels as web streams, from which `Readable.fromWeb` makes Node streams. Each message is copied
 * out, and each chunk is written into a slot. The channel itself gives the back-pressure: a stream
 * reads only when it is read, and takes a chunk only when a slot is free.
 */
import {
  ReadableStream,
  type ReadableStreamDefaultController,
  WritableStream,
  type WritableStreamDefaultController,
} from "node:stream/web";
import type { DType } from "../array/dtype.js";
import { type HostArray, type HostValues, hostEntriesPerElement } from "../array/host-values.js";
import { arrayByteLength } from "../array/layout.js";
import type { WaitOptions } from "../base/deadline.js";
import type { Stream } from "../gpu/order/stream.js";
import type { LoanedSlot } from "./loaned-slot.js";
import type { Meta } from "./message-meta.js";
import type { ReceivedSlot } from "./received-slot.js";

/** A message that was copied out of its slot. */
export interface StreamedMessage<D extends DType = DType> {
  readonly sequence: number;
  readonly timestampMs: number;
  /** Messages that were lost since the one before, or since the reader began. */
  readonly missed: number;
  /** The JSON value that was sent, or bytes. */
  readonly meta: Meta;
  readonly shape: readonly number[];
  readonly data: HostArray<D>;
}

/** A message to be sent. */
export interface StreamableMessage<D extends DType = DType> {
  /** The elements in C order, at most as many as a slot has. */
  readonly data: HostValues<D>;
  readonly shape?: readonly number[] | undefined;
  readonly meta?: Meta | undefined;
}

interface Source<D extends DType> {
  readonly stream: Stream | undefined;
  next(options: WaitOptions): Promise<ReceivedSlot<D> | undefined>;
  close(): void;
}

interface Sink<D extends DType> {
  loan(options: WaitOptions): Promise<LoanedSlot<D>>;
  close(): void;
}

/** Closes the source when the stream ends, fails or is cancelled. */
export function readableOf<D extends DType>(source: Source<D>): ReadableStream<StreamedMessage<D>> {
  const cancelled = new AbortController();
  const pull = async (controller: ReadableStreamDefaultController<StreamedMessage<D>>) => {
    try {
      const slot = await source.next({ signal: cancelled.signal });
      if (slot !== undefined) {
        controller.enqueue(await copiedOut(slot, source.stream, cancelled.signal));
        return;
      }
      controller.close();
    } catch (error) {
      source.close();
      throw error;
    }
    source.close();
  };
  const cancel = () => {
    cancelled.abort();
    source.close();
  };
  return new ReadableStream({ pull, cancel }, { highWaterMark: 0 });
}

/** Closes the sink when the stream ends, fails or is aborted. */
export function writableOf<D extends DType>(sink: Sink<D>): WritableStream<StreamableMessage<D>> {
  const write = async (
    message: StreamableMessage<D>,
    controller: WritableStreamDefaultController,
  ) => {
    // The types of Node 20 lack `signal`. Node calls `abort` only after this write.
    const { signal } = controller as WritableStreamDefaultController & {
      readonly signal: AbortSignal;
    };
    try {
      const slot = await sink.loan({ signal });
      try {
        await send(slot, message, signal);
      } finally {
        slot.close();
      }
    } catch (error) {
      sink.close();
      throw error;
    }
  };
  const close = () => sink.close();
  return new WritableStream({ write, close, abort: close }, { highWaterMark: 1 });
}

async function copiedOut<D extends DType>(
  slot: ReceivedSlot<D>,
  stream: Stream | undefined,
  signal: AbortSignal,
): Promise<StreamedMessage<D>> {
  try {
    // A reader with a stream gets messages before their data is ready.
    await stream?.synchronize({ signal });
    const { sequence, timestampMs, missed, array } = slot;
    const meta = slot.json === undefined ? slot.meta : slot.json;
    return { sequence, timestampMs, missed, meta, shape: array.shape, data: await array.read() };
  } finally {
    slot.release();
  }
}

async function send<D extends DType>(
  slot: LoanedSlot<D>,
  { data, shape, meta }: StreamableMessage<D>,
  signal: AbortSignal,
): Promise<void> {
  const { array } = slot;
  const count = data.length / hostEntriesPerElement(array.dtype);
  const isWhole = shape === undefined && count === array.elementCount;
  const part = isWhole ? array : array.reshape(array.elementCount).slice({ start: 0, stop: count });
  await part.write(data, { signal });
  const byteLength = arrayByteLength(array.dtype, [part.elementCount]);
  slot.commit(isWhole ? { meta } : { meta, shape, byteLength });
}
