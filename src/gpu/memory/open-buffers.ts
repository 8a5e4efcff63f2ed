/**
 * Tracks what each open buffer holds, so that a buffer that was never closed can be released after
 * garbage collection. Counts the open buffers.
 */
import { LeakWatch } from "./leak-watch.js";
import type { MappedMemory } from "./mapped-memory.js";

export interface BufferUse {
  readonly label: string;
  readonly memory: MappedMemory;
}

let openCount = 0;

const forgotten = new LeakWatch<{ readonly open: boolean }, BufferUse>((held) => {
  process.emitWarning(`Buffer "${held.label}" was never closed; it is now`, "CudaIpcLeak");
  try {
    giveBack(held);
  } catch (error) {
    process.emitWarning(
      `Buffer "${held.label}" could not be closed: ${String(error)}`,
      "CudaIpcLeak",
    );
  }
});

/** Makes `holder` the owner of one use of the memory until `giveBackFrom`. */
export function holdFor(holder: { readonly open: boolean }, held: BufferUse): void {
  openCount += 1;
  held.memory.bufferOpened();
  forgotten.watch(holder, held);
}

export function giveBackFrom(holder: { readonly open: boolean }, held: BufferUse): void {
  forgotten.unwatch(holder);
  giveBack(held);
}

/** Number of open buffers of this process, for leak checks. */
export function openBufferCount(): number {
  return openCount;
}

function giveBack({ memory }: BufferUse): void {
  openCount -= 1;
  memory.bufferClosed();
  memory.release();
}
