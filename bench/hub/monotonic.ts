/**
 * Milliseconds on a clock that all processes share. `performance.now()` starts with its process.
 */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
