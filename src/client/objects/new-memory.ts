/** Memory of new objects: allocated on the chosen device or in the chosen pool, or preallocated. */
import type { Deadline } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { DeviceBuffer } from "../../gpu/memory/device-buffer.js";
import { preallocateFile } from "../../os/preallocate.js";
import type { Devices } from "../devices.js";
import type { CreateOptions } from "../hub-options.js";

export function allocateNew(
  name: string,
  byteLength: number,
  { device, pool, preallocate }: Pick<CreateOptions, "device" | "pool" | "preallocate">,
  devices: Devices,
): DeviceBuffer {
  if (pool === undefined)
    return DeviceBuffer.allocate(devices.open(device), byteLength, { label: name });
  if (preallocate === true)
    throw new TypeError(`Cannot create "${name}": pass either pool or preallocate, not both`);
  if (device !== undefined && devices.open(device).uuid !== pool.device.uuid)
    throw new TypeError(`Cannot create "${name}" on ${device}: its pool is on ${pool.device.name}`);
  return pool.allocate(byteLength, { label: name });
}

/**
 * Takes all pages of the memory before anybody writes to it. GPUs have done so at the allocation.
 * @param check called between pieces; may throw
 * @throws OUT_OF_MEMORY, TIMEOUT, ABORTED
 */
export async function preallocateNew(
  buffer: DeviceBuffer,
  deadline: Deadline,
  check: () => void,
): Promise<void> {
  using file = buffer.memory.exportFile();
  if (file === undefined) return;
  const { label: name, allocationByteLength, device } = buffer;
  const onPiece = (restBytes: number) => {
    check();
    // WHY: at the limit of a control group the kernel ends the process and not the call.
    const { freeBytes } = device.memoryInfo();
    if (restBytes <= freeBytes) return;
    const done = allocationByteLength - restBytes;
    const found = `only ${done} of its ${allocationByteLength} bytes could be preallocated`;
    const message = `Cannot create "${name}": ${found}: ${freeBytes} bytes are available`;
    throw new CudaIpcError("OUT_OF_MEMORY", message);
  };
  await preallocateFile(file, allocationByteLength, { name, deadline, onPiece });
}
