/** Numbers by which a thing is told from what was in its place before: an allocation, an event, a file. */

let last = 0;

/**
 * A number that is larger than all that this process got before.
 * WHY microseconds since the boot and no counter: worker threads have copies of this module and share the memory that the numbers are
 * for; what one thread frees another may get, and its number has to be the larger one there too.
 */
export function nextGeneration(): number {
  last = Math.max(last + 1, Number(process.hrtime.bigint() / 1000n));
  return last;
}
