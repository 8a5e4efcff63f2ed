/**
 * Channels as streams of the web, which Node's own streams are made from (`Readable.fromWeb`): each message copied out, each chunk
 * written into a slot. Back-pressure is the channel's own: nothing is read before it is asked for, nothing is taken before a slot is free.
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
import type { Stream } from "../gpu/stream.js";
import type { LoanedSlot } from "./loaned-slot.js";
import type { Meta } from "./message-meta.js";
import type { ReceivedSlot } from "./received-slot.js";

/** A message that was copied out of its slot. */
export interface StreamedMessage<D extends DType = DType> {
  readonly sequence: number;
  readonly timestampMs: number;
  /** Messages that were lost between the one before, or where the reader began, and this one. */
  readonly missed: number;
  /** A JSON value where one was given, otherwise bytes. */
  readonly meta: Meta;
  readonly shape: readonly number[];
  readonly data: HostArray<D>;
}

/** A message to be sent. */
export interface StreamableMessage<D extends DType = DType> {
  /** The elements in C order, as many as a slot has or fewer. */
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

/** Closes the source at the end, where it fails, and where the stream is cancelled. */
export function readableOf<D extends DType>(source: Source<D>): ReadableStream<StreamedMessage<D>> {
  const cancelled = new AbortController();
  const pull = async (controller: ReadableStreamDefaultController<StreamedMessage<D>>) => {
    try {
      const slot = await source.next({ signal: cancelled.signal });
      if (slot !== undefined) {
        controller.enqueue(await copiedOut(slot, source.stream));
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

/** Closes the sink at the end, where it fails, and where the stream is aborted. */
export function writableOf<D extends DType>(sink: Sink<D>): WritableStream<StreamableMessage<D>> {
  const write = async (message: StreamableMessage<D>, controller: WritableStreamDefaultController) => {
    // WHY so: the types of Node 20 do not know it, and `abort` is called only once this is over.
    const { signal } = controller as WritableStreamDefaultController & { readonly signal: AbortSignal };
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
): Promise<StreamedMessage<D>> {
  try {
    // WHY: to a reader with a stream messages come before their data.
    await stream?.synchronize();
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
