/**
 * When the lease of an array ends. For most memory that is when the array is closed. Legacy memory
 * is kept alive by nothing but its owner. So the owner frees it only when nobody else has a lease,
 * and a reader gives its lease back only when its mapping has ended.
 */
import { Deadline } from "../../base/deadline.js";
import { hasCode } from "../../base/errors.js";
import type { DeviceBuffer } from "../../gpu/memory/device-buffer.js";
import type { MappedMemory } from "../../gpu/memory/mapped-memory.js";
import type { HubLink } from "../connection/hub-link.js";
import type { OpenHandles } from "./open-handles.js";
import type { HandleFacts, Lasting, SharedHandle } from "./shared-object.js";

/** The handle of an array or a bundle that was created here. */
export function trackOwned(
  handles: OpenHandles,
  facts: HandleFacts,
  buffer: DeviceBuffer,
): SharedHandle {
  if (buffer.mechanism !== "legacy") return handles.track(facts, () => buffer.close());
  const memory = new OwnedMemory(handles.link, facts, buffer, () => handle.close());
  const handle = handles.track(facts, memory);
  return handle;
}

/** The handle of an array or a bundle that was opened. */
export function trackOpened(
  handles: OpenHandles,
  facts: HandleFacts,
  buffer: DeviceBuffer,
): SharedHandle {
  // Legacy memory of this process counts its users itself.
  if (buffer.mechanism !== "legacy" || !buffer.imported)
    return handles.track(facts, () => buffer.close());
  const memory = new LentMemory(buffer, () => handle.close());
  const handle = handles.track(facts, memory);
  return handle;
}

/** Memory of this process. Once it is closed, it stays until its readers have closed it, too. */
class OwnedMemory implements Lasting {
  readonly #link: HubLink;
  readonly #facts: HandleFacts;
  readonly #buffer: DeviceBuffer;
  readonly #memory: MappedMemory;
  readonly #onEnd: () => void;
  #closing = false;

  constructor(link: HubLink, facts: HandleFacts, buffer: DeviceBuffer, onEnd: () => void) {
    this.#link = link;
    this.#facts = facts;
    this.#buffer = buffer;
    this.#onEnd = onEnd;
    // A use of its own: the buffer may be closed before the array.
    this.#memory = buffer.memory.retain();
  }

  close(): void {
    if (this.#closing) return;
    this.#closing = true;
    this.#buffer.close();
    void this.#end();
  }

  settle(): void {}

  async #end(): Promise<void> {
    const { name, object } = this.#facts;
    const deadline = new Deadline(`close "${name}"`, {}, Number.POSITIVE_INFINITY);
    try {
      await this.#link.request("drain", { object }, deadline);
    } catch (error) {
      // The hub was closed here while others have the memory. It stays until this process ends.
      if (hasCode(error, "CLOSED")) return;
      // Without a hub nobody knows who has it. The mark tells them that it is gone.
    }
    try {
      this.#memory.release();
    } catch (error) {
      process.emitWarning(`"${name}" could not be freed: ${String(error)}`, "CudaIpcLeak");
    } finally {
      this.#onEnd();
    }
  }
}

/** Memory of another process. The lease lasts as long as the mapping. */
class LentMemory implements Lasting {
  readonly #buffer: DeviceBuffer;
  readonly #memory: MappedMemory;
  readonly #onEnd: () => void;
  #closing = false;

  constructor(buffer: DeviceBuffer, onEnd: () => void) {
    this.#buffer = buffer;
    this.#memory = buffer.memory;
    this.#onEnd = onEnd;
  }

  close(): void {
    if (this.#closing) return;
    this.#closing = true;
    // In a later microtask: listeners run before the driver ends the mapping.
    this.#memory.onUnmapped(() => queueMicrotask(this.#onEnd));
    this.#buffer.close();
  }

  settle(): void {}
}
