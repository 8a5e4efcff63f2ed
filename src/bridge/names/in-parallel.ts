/** Writes many records to NATS, some at a time. */

/** Writes under way at a time. */
const PARALLEL = 32;

/** @returns whether all returned true */
export async function inParallel(writes: readonly (() => Promise<boolean>)[]): Promise<boolean> {
  let next = 0;
  let isWritten = true;
  const lane = async (): Promise<void> => {
    for (let write = writes[next++]; write !== undefined; write = writes[next++])
      isWritten = (await write()) && isWritten;
  };
  await Promise.all(Array.from({ length: Math.min(PARALLEL, writes.length) }, lane));
  return isWritten;
}
