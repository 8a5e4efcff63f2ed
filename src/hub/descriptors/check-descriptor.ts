/** Checks a descriptor against the memory that came with it: later openers map what it claims. */
import { wholePages } from "../../base/bytes.js";
import { CudaIpcError } from "../../base/errors.js";
import { poolFileBytes } from "../../base/pool-layout.js";
import type { Access } from "../../os/mapping.js";
import type { ChannelRole } from "../../wire/channel-content.js";
import { type Descriptor, descriptorContradiction } from "../../wire/descriptor.js";
import { MARK_BYTES } from "../../wire/legacy-mark.js";
import type { Sharing } from "../../wire/messages.js";
import { endsWithOwner, factsOf, hasOwnFile } from "../../wire/schemas.js";
import type { HubPorts } from "../core/ports.js";
import { hasEndWord, type SharedObject } from "../objects/shared-object.js";
import type { ObjectRecord } from "../restart/hub-records.js";
import { checkChannel, isWordsFile, type Refuse } from "./check-channel.js";

export interface CheckedMemory {
  /**
   * The inode of each file, in the order of the descriptors; null for GPU memory, which has none.
   */
  readonly inodes: readonly (string | null)[];
  /** Whether host memory, or a mark, can be written through the descriptor that came. */
  readonly writable: boolean;
}

/** Whether the first descriptor is a memory file, which the hub can check. */
function comesAsFile(descriptor: Descriptor): boolean {
  return factsOf(descriptor.device).memoryFiles || hasOwnFile(descriptor);
}

/** How long the file behind the first descriptor must be, and may be at most. */
function claimedBytes({ pooled, ...rest }: Descriptor): { claimed: number; most: number } {
  if (pooled !== undefined)
    return { claimed: pooled.maxBytes, most: poolFileBytes(pooled.maxBytes) };
  const claimed = endsWithOwner(rest) ? MARK_BYTES : rest.allocationByteLength;
  return { claimed, most: wholePages(claimed) };
}

/**
 * Checks host memory in full. Only the driver knows the size of GPU memory, and the hub never loads
 * the driver. A false claim there fails in the process that maps it, with the same error.
 * @throws INVALID_DESCRIPTOR
 */
export function checkMemory<Fd>(
  attempt: string,
  descriptor: Descriptor,
  fds: readonly Fd[],
  ports: Pick<HubPorts<Fd>, "inspectMemoryFile" | "isBell" | "isDeviceMemory">,
): CheckedMemory {
  const refuse: Refuse = (found) =>
    new CudaIpcError("INVALID_DESCRIPTOR", `Cannot ${attempt}: ${found}`);
  const contradiction = descriptorContradiction(descriptor);
  if (contradiction !== undefined) throw refuse(`the descriptor claims ${contradiction}`);
  const [memory, index] = fds;
  const inodes: (string | null)[] = [];
  let writable = false;
  if (memory !== undefined) {
    const facts = comesAsFile(descriptor) ? ports.inspectMemoryFile(memory) : undefined;
    if (facts === undefined && !ports.isDeviceMemory(memory))
      throw refuse("the descriptor is not memory of a GPU");
    inodes.push(facts?.inode ?? null);
    if (facts !== undefined) {
      if (facts.flaw !== undefined) throw refuse(`its memory cannot be used: ${facts.flaw}`);
      writable = facts.writable && hasOwnFile(descriptor);
      const { claimed, most } = claimedBytes(descriptor);
      // WHY not longer either: the hub keeps the whole file, and charges what is claimed.
      if (facts.byteLength < claimed || facts.byteLength > most)
        throw refuse(`the descriptor claims ${claimed} bytes, the memory has ${facts.byteLength}`);
      if (!facts.sizeSealed)
        throw refuse("the memory is not sealed against resizing (F_SEAL_SHRINK, F_SEAL_GROW)");
    }
  }
  if (descriptor.content.kind === "bundle" && index !== undefined) {
    const { byteLength, contentSealed, inode, flaw } = ports.inspectMemoryFile(index);
    if (flaw !== undefined) throw refuse(`its index cannot be used: ${flaw}`);
    inodes.push(inode);
    const claimed = descriptor.content.indexByteLength;
    if (byteLength !== claimed)
      throw refuse(`the descriptor claims an index of ${claimed} bytes, it has ${byteLength}`);
    if (!contentSealed) throw refuse("the index is not sealed against writing (F_SEAL_WRITE)");
  }
  if (descriptor.content.kind === "channel") {
    if (hasOwnFile(descriptor) && !writable) throw refuse("the slots are read-only");
    inodes.push(...checkChannel(descriptor.content, fds, ports, refuse));
  }
  return { inodes, writable };
}

/**
 * Checks what a new object's memory must allow beyond its size.
 * @throws INVALID_DESCRIPTOR
 */
export function checkUse<Fd>(
  attempt: string,
  {
    descriptor,
    sharing,
    writable,
  }: { readonly descriptor: Descriptor; readonly sharing: Sharing; writable: boolean },
  fds: readonly Fd[],
  ports: Pick<HubPorts<Fd>, "inspectMemoryFile">,
): void {
  const refuse: Refuse = (found) =>
    new CudaIpcError("INVALID_DESCRIPTOR", `Cannot ${attempt}: ${found}`);
  const { content } = descriptor;
  // The hub has to write the end when the owner dies.
  const isEnded = hasEndWord({ descriptor });
  if (isEnded && !writable) throw refuse("its descriptor is read-only");
  const words = content.kind === "channel" ? fds.filter((_, index) => isWordsFile(index)) : [];
  const hostMemory = comesAsFile(descriptor) ? fds.slice(0, 1) : [];
  // The hub itself adds no seal and changes no mode: both calls can wait for as long as another
  // writer likes. WHY the seal: anybody who can write to a file could seal it against writing by
  // its owner and the hub.
  if (![...hostMemory, ...words].every((fd) => ports.inspectMemoryFile(fd).sealsClosed))
    throw refuse("others could seal its memory: it lacks F_SEAL_SEAL");
  if (sharing.with === "private") return;
  const isGuarded = hasOwnFile(descriptor) && (isEnded || sharing.access === "read");
  const guarded = [...(isGuarded ? hostMemory : []), ...words];
  if (!guarded.some((fd) => ports.inspectMemoryFile(fd).othersMayWrite)) return;
  throw refuse(
    "other users could write to its memory file: its mode must be 0644 or less (fchmod)",
  );
}

/**
 * Memory that comes back must be the memory that was there. GPU memory cannot be recognized, so the
 * caller takes it only from the owner's own user.
 * @throws INVALID_DESCRIPTOR
 */
export function checkSameMemory(
  attempt: string,
  record: Pick<ObjectRecord, "inodes">,
  found: CheckedMemory,
): void {
  // Null for memory of GPUs, for bells, and for host pools in journals of earlier versions.
  const isSame = (inode: string | null, index: number) =>
    inode === null || inode === found.inodes[index];
  if (record.inodes.every(isSame)) return;
  throw new CudaIpcError(
    "INVALID_DESCRIPTOR",
    `Cannot ${attempt}: the descriptors are of other memory`,
  );
}

/**
 * Allows writing to a timeline only to its next owner: its memory may hold other timelines, and
 * only the owner signals.
 * @throws READ_ONLY
 */
export function checkAccess<Fd>(
  { name, descriptor, memory, writable }: SharedObject<Fd>,
  access: Access,
  role?: ChannelRole,
): void {
  if (access === "read") return;
  const refuse = (found: string) =>
    new CudaIpcError("READ_ONLY", `Cannot open "${name}" for writing: ${found}`);
  if (descriptor.content.kind === "timeline" && role !== "writer")
    throw refuse("only its owner signals a timeline");
  // The mark says nothing about the memory.
  if (!hasOwnFile(descriptor) || endsWithOwner(descriptor) || memory?.writable) return;
  if (!writable) throw refuse("its creator gave a read-only descriptor");
  throw refuse(
    "after a crash of the hub its memory came back read-only, and no writer has brought it yet",
  );
}
