/** Files to load, and a signal that aborts late. */
import type { FileProgress } from "../../../src/client/hub-options.js";
import { encodeNpyHeader } from "../../../src/files/npy-header.js";

export function npyFile(values: Float32Array): Buffer {
  return Buffer.concat([
    encodeNpyHeader("float32", [values.length]),
    new Uint8Array(values.buffer),
  ]);
}

/** Larger than a piece of any copy. */
export const LARGE = npyFile(new Float32Array(24 * 1024 * 1024).fill(3));

/** Aborts after all bytes have moved. */
export function abortsAtTheEnd(): {
  signal: AbortSignal;
  onProgress: (progress: FileProgress) => void;
} {
  const controller = new AbortController();
  const onProgress = ({ doneBytes, totalBytes }: FileProgress) => {
    if (doneBytes === totalBytes) controller.abort();
  };
  return { signal: controller.signal, onProgress };
}
