/** The network interfaces of this machine, by the names that UCX has for them. */
import { readdirSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { join } from "node:path";

const RDMA_DEVICES = "/sys/class/infiniband";

/** Interfaces with an address, as `eth0`, then the ports of RDMA devices, as `mlx5_0:1`. */
export function interfaceNames(rdmaDevices: string = RDMA_DEVICES): readonly string[] {
  const ports = entriesOf(rdmaDevices).flatMap((device) =>
    entriesOf(join(rdmaDevices, device, "ports")).map((port) => `${device}:${port}`),
  );
  return [...Object.keys(networkInterfaces()).sort(), ...ports];
}

/** Empty for a folder that is not there. */
function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder).sort();
  } catch {
    return [];
  }
}
