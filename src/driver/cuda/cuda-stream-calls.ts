/**
 * What is enqueued on a CUDA stream: copies, fills, and waits for and writes of words. Every call
 * returns before the work is done. This is the hot path: a message is built only after a failure.
 *
 * Trap: a copy from or to host memory that is neither staging nor registered goes through a buffer
 * of the driver, and blocks until earlier work of the stream is done. Behind a pending `waitWord`
 * that blocks the event loop.
 */
import { checkInteger } from "../../base/bytes.js";
import { cuResult, cuValue } from "../../ffi/cuda-constants.js";
import { type BatchMemOp, encodeBatchMemOps } from "../../ffi/cuda-structs.js";
import type { AddressRange } from "../common/address-table.js";
import { checkBatch, checkFill, checkWithin, checkWordAddress } from "../common/argument-checks.js";
import type { DevicePointer } from "../memory-calls.js";
import type { StreamCalls, WordOperation } from "../stream-calls.js";
import { word64 } from "./checked-word.js";
import type { CudaAddresses } from "./cuda-addresses.js";
import { type CudaSession, wantsContext } from "./cuda-session.js";
import type { CudaStreams } from "./cuda-streams.js";

const {
  CU_STREAM_MEM_OP_WAIT_VALUE_64: WAIT_VALUE_64,
  CU_STREAM_MEM_OP_WRITE_VALUE_64: WRITE_VALUE_64,
} = cuValue;
const { CU_STREAM_WAIT_VALUE_GEQ: WAIT_GEQ, CU_STREAM_WRITE_VALUE_DEFAULT: WRITE_FENCED } = cuValue;
const memsetCalls = { 1: "cuMemsetD8Async", 2: "cuMemsetD16Async", 4: "cuMemsetD32Async" } as const;

type CopyCalls = Pick<
  StreamCalls,
  "copyToDevice" | "copyToHost" | "copyOnDevice" | "copyBetweenDevices" | "fill"
>;
type WordCalls = Pick<StreamCalls, "waitWord" | "writeWord" | "batchWords">;

export function cudaStreamCalls(
  session: CudaSession,
  addresses: CudaAddresses,
  streams: CudaStreams,
): StreamCalls {
  return {
    createStream: (ordinal) => streams.create(ordinal),
    destroyStream: (stream) => streams.destroy(stream),
    isIdle: (stream) => streams.isIdle(stream),
    ...copyCalls(session, addresses, streams),
    ...wordCalls(session, addresses, streams),
  };
}

function copyCalls(
  session: CudaSession,
  addresses: CudaAddresses,
  streams: CudaStreams,
): CopyCalls {
  return {
    copyToDevice(stream, to, from, byteLength) {
      const { cuda, handle, ordinal } = streams.enter(stream);
      if (checkInteger("Copy: byteLength", byteLength, 0) === 0) return;
      addresses.check(ordinal, to, byteLength, "read-write");
      // SAFETY: the caller keeps both ranges until the stream has passed the copy. The device's
      // range was checked.
      const status = cuda.cuMemcpyHtoDAsync(to, from, byteLength, handle);
      if (status === cuResult.CUDA_SUCCESS) return;
      const attempt = `copy ${byteLength} bytes to cuda:${ordinal}`;
      throw session.failure(status, "cuMemcpyHtoDAsync", attempt);
    },

    copyToHost(stream, to, from, byteLength) {
      const { cuda, handle, ordinal } = streams.enter(stream);
      if (checkInteger("Copy: byteLength", byteLength, 0) === 0) return;
      addresses.check(ordinal, from, byteLength, "read");
      // SAFETY: as in copyToDevice.
      const status = cuda.cuMemcpyDtoHAsync(to, from, byteLength, handle);
      if (status === cuResult.CUDA_SUCCESS) return;
      const attempt = `copy ${byteLength} bytes from cuda:${ordinal}`;
      throw session.failure(status, "cuMemcpyDtoHAsync", attempt);
    },

    copyOnDevice(stream, to, from, byteLength) {
      const { cuda, handle, ordinal } = streams.enter(stream);
      if (checkInteger("Copy: byteLength", byteLength, 0) === 0) return;
      addresses.check(ordinal, to, byteLength, "read-write");
      addresses.check(ordinal, from, byteLength, "read");
      const status = cuda.cuMemcpyDtoDAsync(to, from, byteLength, handle);
      if (status === cuResult.CUDA_SUCCESS) return;
      const attempt = `copy ${byteLength} bytes on cuda:${ordinal}`;
      throw session.failure(status, "cuMemcpyDtoDAsync", attempt);
    },

    copyBetweenDevices(stream, to, from, byteLength) {
      const { cuda, handle, ordinal } = streams.enter(stream);
      if (checkInteger("Copy: byteLength", byteLength, 0) === 0) return;
      addresses.check(to.ordinal, to.pointer, byteLength, "read-write");
      addresses.check(from.ordinal, from.pointer, byteLength, "read");
      const contexts = { to: session.context(to.ordinal), from: session.context(from.ordinal) };
      session.enter(ordinal);
      // SAFETY: the caller keeps both ranges until the stream has passed the copy.
      const status = cuda.cuMemcpyPeerAsync(
        to.pointer,
        contexts.to,
        from.pointer,
        contexts.from,
        byteLength,
        handle,
      );
      if (status === cuResult.CUDA_SUCCESS) return;
      const attempt = `copy ${byteLength} bytes from cuda:${from.ordinal} to cuda:${to.ordinal}`;
      throw session.failure(status, "cuMemcpyPeerAsync", attempt);
    },

    fill(stream, to, pattern, count) {
      const { cuda, handle, ordinal } = streams.enter(stream);
      checkFill(to, pattern, count);
      if (count === 0) return;
      const { elementBytes, value } = pattern;
      addresses.check(ordinal, to, count * elementBytes, "read-write");
      const call = memsetCalls[elementBytes];
      const status = cuda[call](to, value, count, handle);
      if (status === cuResult.CUDA_SUCCESS) return;
      throw session.failure(status, call, `fill ${count * elementBytes} bytes on cuda:${ordinal}`);
    },
  };
}

function wordCalls(
  session: CudaSession,
  addresses: CudaAddresses,
  streams: CudaStreams,
): WordCalls {
  // WHY kept apart: in the table of all functions each would be looked up for every wait and write.
  const { cuStreamWaitValue64: waitValue, cuStreamWriteValue64: writeValue } = session.cuda;
  const deviceMemory = (address: DevicePointer): AddressRange | undefined =>
    addresses.memory.holding(address);

  /** Checks each operation of a batch by itself: see `CudaAddresses.check`. */
  function encodeWord(ordinal: number, { kind, pointer, value }: WordOperation): BatchMemOp {
    checkWordAddress(pointer);
    const range = addresses.registeredOn(ordinal).holding(pointer) ?? deviceMemory(pointer);
    if (range !== undefined)
      checkWithin(range, pointer, 8, kind === "wait" ? "read" : "read-write");
    // SYNC: as in waitWord and writeWord.
    return kind === "wait"
      ? { operation: WAIT_VALUE_64, address: pointer, value, flags: WAIT_GEQ }
      : { operation: WRITE_VALUE_64, address: pointer, value, flags: WRITE_FENCED };
  }

  return {
    waitWord(stream, pointer, value) {
      const own = streams.usable(stream);
      const address = own.awaited.check(pointer, deviceMemory);
      const wanted = word64(value);
      // SYNC: what the writer of the word did before is visible to what this stream does after.
      // Pairs with `writeWord` here and with every Atomics.store to the word.
      let status = waitValue(own.handle, address, wanted, WAIT_GEQ);
      if (wantsContext(status))
        status = session.within(own.ordinal, () =>
          waitValue(own.handle, address, wanted, WAIT_GEQ),
        );
      if (status === cuResult.CUDA_SUCCESS) return;
      const attempt = `wait for a word on cuda:${own.ordinal}`;
      throw session.failure(status, "cuStreamWaitValue64", attempt);
    },

    writeWord(stream, pointer, value) {
      const own = streams.usable(stream);
      const address = own.written.check(pointer, deviceMemory);
      const written = word64(value);
      // SYNC: the default flag is a fence. A reader that sees the value sees all earlier work of
      // this stream. Pairs with `waitWord` here and with every Atomics.load of the word.
      let status = writeValue(own.handle, address, written, WRITE_FENCED);
      if (wantsContext(status))
        status = session.within(own.ordinal, () =>
          writeValue(own.handle, address, written, WRITE_FENCED),
        );
      if (status === cuResult.CUDA_SUCCESS) return;
      const attempt = `write a word on cuda:${own.ordinal}`;
      throw session.failure(status, "cuStreamWriteValue64", attempt);
    },

    batchWords(stream, operations) {
      const { ordinal } = streams.usable(stream);
      checkBatch(operations);
      if (operations.length === 0) return;
      const encoded = operations.map((operation) => encodeWord(ordinal, operation));
      const memory = encodeBatchMemOps(encoded);
      const status = streams.inContextOf(stream, (cuda, handle) =>
        cuda.cuStreamBatchMemOp(handle, encoded.length, memory, 0),
      );
      if (status === cuResult.CUDA_SUCCESS) return;
      const attempt = `enqueue ${encoded.length} waits and writes of words on cuda:${ordinal}`;
      throw session.failure(status, "cuStreamBatchMemOp", attempt);
    },
  };
}
