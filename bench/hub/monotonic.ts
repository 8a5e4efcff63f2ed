/** Milliseconds on the one clock that all processes of the machine have; `performance.now()` counts from the start of its own process. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
