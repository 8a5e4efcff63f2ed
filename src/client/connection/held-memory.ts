/** How each kind of object brings its memory back to a hub that has lost it. */
import { acquireIn } from "../../base/scope.js";
import type { DeviceBuffer } from "../../gpu/memory/device-buffer.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import type { ChannelRole } from "../../wire/channel-content.js";
import { duplicates, type HeldLease, type HeldMemory } from "./held-leases.js";

/** A part in a channel: a writer brings all of it, a reader its part, an observer nothing. */
export function partOf(
  role: ChannelRole,
  memory: HeldMemory,
): Pick<HeldLease, "memory" | "isPart"> {
  if (role !== "observer") return { memory, isPart: role === "reader" };
  return { memory: { bring: () => [], close: () => memory.close() } };
}

/** An array or a bundle that was created here: its memory is exported anew each time. */
export function memoryOf(buffer: DeviceBuffer, index: OwnedFd | undefined): HeldMemory {
  const kept = index?.duplicate();
  const bring = () =>
    acquireIn((scope) => {
      const fd = scope.own(buffer.exportFd(), (fd) => fd.close());
      return kept === undefined ? [fd] : [fd, ...duplicates([kept])];
    });
  return { bring, close: () => kept?.close() };
}
