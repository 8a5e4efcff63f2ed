/** A descriptor against the memory that came with it: whoever opens the object later maps what is claimed here. */
import { CudaIpcError } from "../base/errors.js";
import type { Access } from "../os/mapping.js";
import { type Descriptor, descriptorContradiction } from "../wire/descriptor.js";
import type { SharedObject } from "./object-table.js";
import type { HubPorts } from "./ports.js";

/**
 * Host memory is checked in full. The size of GPU memory is known to the driver alone, which the hub never loads:
 * a false claim there fails in whoever maps it, with the same error.
 * @throws INVALID_DESCRIPTOR
 */
export function checkDescriptor<Fd>(
  name: string,
  descriptor: Descriptor,
  fds: readonly Fd[],
  ports: Pick<HubPorts<Fd>, "inspectMemoryFile">,
): void {
  const refuse = (found: string) => new CudaIpcError("INVALID_DESCRIPTOR", `Cannot create "${name}": ${found}`);
  const [memory, index] = fds;
  const contradiction = descriptorContradiction(descriptor);
  if (contradiction !== undefined) throw refuse(`the descriptor claims ${contradiction}`);
  if (descriptor.mechanism === "memfd" && memory !== undefined) {
    const { byteLength, sizeSealed, writable } = ports.inspectMemoryFile(memory);
    const claimed = descriptor.allocationByteLength;
    if (byteLength < claimed) throw refuse(`the descriptor claims ${claimed} bytes, the memory has ${byteLength}`);
    if (!sizeSealed) throw refuse("the memory is not sealed against resizing (F_SEAL_SHRINK, F_SEAL_GROW)");
    // WHY: the hub ends the timeline when its owner dies.
    if (descriptor.content.kind === "timeline" && !writable) throw refuse("its descriptor is for reading alone");
  }
  if (descriptor.content.kind === "bundle" && index !== undefined) {
    const { byteLength, contentSealed } = ports.inspectMemoryFile(index);
    const claimed = descriptor.content.indexByteLength;
    if (byteLength !== claimed)
      throw refuse(`the descriptor claims an index of ${claimed} bytes, it has ${byteLength}`);
    if (!contentSealed) throw refuse("the index is not sealed against writing (F_SEAL_WRITE)");
  }
}

/**
 * WHY no timeline for writing: the memory holds other timelines of its owner too, and only the owner signals.
 * @throws READ_ONLY
 */
export function checkAccess<Fd>({ name, descriptor }: SharedObject<Fd>, access: Access): void {
  if (descriptor.content.kind !== "timeline" || access === "read") return;
  throw new CudaIpcError("READ_ONLY", `Cannot open "${name}" for writing: a timeline is signalled by its owner alone`);
}
