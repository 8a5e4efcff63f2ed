/**
 * Generation numbers tell an allocation, event or file from an earlier one with the same handle.
 */

let last = 0;

/**
 * Returns a number that is larger than all before it in this process.
 * WHY microseconds since the boot: each worker thread has its own copy of this module, but all
 * share the memory. If one thread gets what another has freed, its number must be larger, too.
 */
export function nextGeneration(): number {
  last = Math.max(last + 1, Number(process.hrtime.bigint() / 1000n));
  return last;
}
