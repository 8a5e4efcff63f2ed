/**
 * What an open buffer holds, apart from the buffer itself, so that it can be given back when the buffer was forgotten; and a count of
 * those that are open.
 */
import { releaseAll } from "../base/scope.js";
import type { DriverMemory } from "../driver/gpu-driver.js";
import { LeakWatch } from "./leak-watch.js";
import type { MappedMemory } from "./mapped-memory.js";

export interface HeldMemory {
  readonly label: string;
  readonly mapped: MappedMemory;
  /** The driver's handle, for exporting; undefined for imported memory. */
  readonly memory: DriverMemory | undefined;
}

let liveCount = 0;

const forgotten = new LeakWatch<{ readonly open: boolean }, HeldMemory>((held) => {
  process.emitWarning(`Buffer "${held.label}" was never closed; it is now`, "CudaIpcLeak");
  try {
    giveBack(held);
  } catch (error) {
    process.emitWarning(`Buffer "${held.label}" could not be closed: ${String(error)}`, "CudaIpcLeak");
  }
});

/** From here on `holder` owns it, until `giveBackFrom`. */
export function holdFor(holder: { readonly open: boolean }, held: HeldMemory): void {
  liveCount += 1;
  held.mapped.pooled?.bufferOpened();
  forgotten.watch(holder, held);
}

export function giveBackFrom(holder: { readonly open: boolean }, held: HeldMemory): void {
  forgotten.unwatch(holder);
  giveBack(held);
}

/** Buffers of this process that are open; what leak checks compare. */
export function openBufferCount(): number {
  return liveCount;
}

function giveBack({ mapped, memory }: HeldMemory): void {
  liveCount -= 1;
  mapped.pooled?.bufferClosed();
  if (memory === undefined) mapped.release();
  else releaseAll([() => mapped.device.driver.releaseMemory(memory), () => mapped.release()]);
}
