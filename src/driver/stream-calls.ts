/** The stream calls of the seam: copies, fills, and words that streams wait for and write. */
import type { DevicePointer, HostPointer } from "./memory-calls.js";

/** A queue of work that runs in order. Ended by `destroyStream`. */
export interface DriverStream {
  readonly ordinal: number;
}

/** A repeated element of 1, 2 or 4 bytes. */
export interface FillPattern {
  readonly elementBytes: 1 | 2 | 4;
  readonly value: number;
}

/**
 * 64 bits of a word, signed or unsigned. A number is a non-negative safe integer, and costs less
 * than the same value as a bigint.
 */
export type WordValue = number | bigint;

/** One of several waits and writes that go to a stream in one call. */
export type WordOperation =
  | { readonly kind: "wait"; readonly pointer: DevicePointer; readonly value: bigint }
  | { readonly kind: "write"; readonly pointer: DevicePointer; readonly value: bigint };

/** One end of a copy between devices. */
export interface DeviceLocation {
  readonly ordinal: number;
  readonly pointer: DevicePointer;
}

export interface StreamCalls {
  createStream(ordinal: number): DriverStream;
  /**
   * Destroys a stream. The caller makes sure that it is idle. Otherwise `cuda` finishes what was
   * enqueued, and `host` drops it.
   */
  destroyStream(stream: DriverStream): void;
  /**
   * Whether everything enqueued so far is done. Throws the error of an operation that failed.
   * A caller that awaits a stream polls this, which keeps the process alive. A pending wait alone
   * does not keep it alive.
   */
  isIdle(stream: DriverStream): boolean;

  /**
   * Enqueues a copy. The host memory must stay in place and unchanged until the stream has passed
   * the copy. It must be staging, registered or (on `host`) mapped memory of this driver: `host`
   * refuses other memory with RangeError, and `cuda` would block in this call until earlier work of
   * the stream is done. If the ranges overlap, the result is undefined.
   * The rules of the other copies and of `fill` are the same.
   * @throws READ_ONLY if the target is mapped or registered for reading, RangeError beyond the end
   * of a mapping; nothing is enqueued then
   */
  copyToDevice(
    stream: DriverStream,
    to: DevicePointer,
    from: HostPointer,
    byteLength: number,
  ): void;
  copyToHost(stream: DriverStream, to: HostPointer, from: DevicePointer, byteLength: number): void;
  copyOnDevice(
    stream: DriverStream,
    to: DevicePointer,
    from: DevicePointer,
    byteLength: number,
  ): void;
  /**
   * Enqueues a copy between devices, on a stream of either. If they cannot reach each other, the
   * driver copies through the host.
   */
  copyBetweenDevices(
    stream: DriverStream,
    to: DeviceLocation,
    from: DeviceLocation,
    byteLength: number,
  ): void;
  /** Enqueues a fill of `count` elements. The address is a multiple of the element size. */
  fill(stream: DriverStream, to: DevicePointer, pattern: FillPattern, count: number): void;

  /**
   * Enqueues a wait: later work of this stream starts when the 64-bit word at `pointer` has reached
   * `value`. The comparison is cyclic: `(int64)(word - value) >= 0`. The address is a multiple of
   * 8.
   */
  waitWord(stream: DriverStream, pointer: DevicePointer, value: WordValue): void;
  /**
   * Enqueues a write of the word after all earlier work of this stream. A reader that sees the
   * value also sees that work.
   */
  writeWord(stream: DriverStream, pointer: DevicePointer, value: WordValue): void;
  /** Enqueues at most 255 waits and writes in order, in one driver call if the driver can. */
  batchWords(stream: DriverStream, operations: readonly WordOperation[]): void;
}
