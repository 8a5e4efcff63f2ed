/** The buffers of this process that are open: what each holds, apart from itself, so that one that was forgotten can be given back too. */
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

interface Owner {
  readonly open: boolean;
}

let liveCount = 0;

const forgotten = new LeakWatch<Owner, HeldMemory>((held) => {
  process.emitWarning(`Buffer "${held.label}" was never closed; it is now`, "CudaIpcLeak");
  try {
    giveBack(held);
  } catch (error) {
    process.emitWarning(`Buffer "${held.label}" could not be closed: ${String(error)}`, "CudaIpcLeak");
  }
});

export function openBuffer(owner: Owner, held: HeldMemory): void {
  liveCount += 1;
  held.mapped.pooled?.bufferOpened();
  forgotten.watch(owner, held);
}

export function closeBuffer(owner: Owner, held: HeldMemory): void {
  forgotten.unwatch(owner);
  giveBack(held);
}

/** What leak checks compare. */
export function openBufferCount(): number {
  return liveCount;
}

function giveBack({ mapped, memory }: HeldMemory): void {
  liveCount -= 1;
  mapped.pooled?.bufferClosed();
  releaseAll([
    () => {
      if (memory !== undefined) mapped.device.driver.releaseMemory(memory);
    },
    () => mapped.release(),
  ]);
}
