/** The memory of the host and of each GPU: how much there is, and who uses it. */
import type { GpuMemoryUse } from "./gpu-memory.js";
import type { MemoryUse } from "./host-memory.js";
import type { WatchedDevice, WatchedObject } from "./snapshot.js";

const HOST = "host";

/** The host, then all GPUs that are known or hold an object. */
export function devicesOf(
  objects: Iterable<WatchedObject>,
  host: MemoryUse | undefined,
  gpus: readonly GpuMemoryUse[],
): WatchedDevice[] {
  const held = new Map<string, number>([[HOST, 0], ...gpus.map(({ uuid }) => [uuid, 0] as const)]);
  for (const { device, heldBytes } of objects)
    held.set(device, (held.get(device) ?? 0) + heldBytes);
  return [...held].map(([device, heldBytes]) => {
    const gpu = gpus.find(({ uuid }) => uuid === device);
    const use = device === HOST ? host : gpu;
    return {
      device,
      model: gpu?.model,
      totalBytes: use?.totalBytes,
      usedBytes: use?.usedBytes,
      heldBytes,
      // WHY not below 0: host memory that nobody has written yet is held but not used.
      othersBytes: use === undefined ? undefined : Math.max(0, use.usedBytes - heldBytes),
      processes: gpu?.processes ?? [],
    };
  });
}
