/**
 * When the lease of an opened array ends. For most memory that is when the array is closed. Legacy
 * memory is kept alive by nothing but its owner, who frees it once nobody else has a lease. So a
 * reader gives its lease back only when its mapping has ended.
 */
import { releaseAll } from "../../base/scope.js";
import type { DeviceBuffer } from "../../gpu/memory/device-buffer.js";
import type { MappedMemory } from "../../gpu/memory/mapped-memory.js";
import type { OpenHandles } from "./open-handles.js";
import type { HandleFacts, Lasting, SharedHandle } from "./shared-object.js";

/** The handle of an array or a bundle that was opened. */
export function trackOpened(
  handles: OpenHandles,
  facts: HandleFacts,
  buffer: DeviceBuffer,
  copies?: { close(): void },
): SharedHandle {
  const close = () => releaseAll([() => copies?.close(), () => buffer.close()]);
  if (buffer.mechanism !== "legacy") return handles.track(facts, close);
  const memory = new LentMemory(buffer.memory, close, () => handle.close());
  const handle = handles.track(facts, memory);
  return handle;
}

/** Memory of another process. The lease lasts as long as the mapping. */
class LentMemory implements Lasting {
  readonly #memory: MappedMemory;
  readonly #close: () => void;
  readonly #onEnd: () => void;
  #closing = false;

  constructor(memory: MappedMemory, close: () => void, onEnd: () => void) {
    this.#memory = memory;
    this.#close = close;
    this.#onEnd = onEnd;
  }

  close(): void {
    if (this.#closing) return;
    this.#closing = true;
    // In a later microtask: listeners run before the driver ends the mapping.
    this.#memory.onUnmapped(() => queueMicrotask(this.#onEnd));
    this.#close();
  }

  settle(): void {}
}
