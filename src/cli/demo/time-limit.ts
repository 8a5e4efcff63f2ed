/** Runs a demo within a time limit, and until Ctrl-C. */
import { CudaIpcError, hasCode } from "../../base/errors.js";

/**
 * Calls `play` with a signal that is aborted by `interrupt` and by the limit. Resolves to the
 * reason if this machine lacks a mechanism that the demo needs.
 */
export async function withinLimit(
  limitMs: number,
  interrupt: AbortSignal,
  play: (signal: AbortSignal) => Promise<string | undefined>,
): Promise<string | undefined> {
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(overTime(limitMs)), limitMs);
  const onInterrupt = () => limit.abort(interrupt.reason);
  interrupt.addEventListener("abort", onInterrupt);
  try {
    return await play(limit.signal);
  } catch (error) {
    // After an abort, other failures are its consequences.
    if (limit.signal.aborted) throw limit.signal.reason;
    if (hasCode(error, "UNSUPPORTED")) return error.message;
    throw error;
  } finally {
    clearTimeout(timer);
    interrupt.removeEventListener("abort", onInterrupt);
  }
}

function overTime(limitMs: number): CudaIpcError {
  return new CudaIpcError(
    "TIMEOUT",
    `Cannot finish the demo: it was not done within ${limitMs / 1000} s`,
  );
}
