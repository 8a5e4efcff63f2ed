/** Memory of this process as it is described and handed to others. */
import { DeviceArray } from "../gpu/device-array.js";
import { DeviceBuffer } from "../gpu/device-buffer.js";
import { describeBuffer } from "../gpu/sharing.js";
import type { Access } from "../os/mapping.js";
import { reopenReadOnly } from "../os/memory-file.js";
import type { OwnedFd } from "../os/owned-fd.js";
import type { Descriptor } from "../wire/descriptor.js";

/** The descriptor of the memory and, where only reading is granted and the kernel can see to it, one for reading only. The caller owns it. */
export function exportFor(buffer: DeviceBuffer, access: Access): OwnedFd {
  const fd = buffer.exportFd();
  if (access === "read-write" || !buffer.device.driver.memoryFiles) return fd;
  try {
    return reopenReadOnly(fd);
  } finally {
    fd.close();
  }
}

/** @throws TypeError for anything else */
export function describe(source: DeviceArray | DeviceBuffer): { kind: "array" | "buffer"; descriptor: Descriptor } {
  if (source instanceof DeviceArray) {
    const { dtype, shape, strides, byteOffset } = source.layout;
    const array = { dtype, shape: [...shape], strides: [...strides], byteOffset };
    return { kind: "array", descriptor: describeBuffer(source.buffer, { kind: "array", array }) };
  }
  if (!(source instanceof DeviceBuffer)) {
    throw new TypeError(`What is shared is a DeviceArray or a DeviceBuffer, not ${typeof source}`);
  }
  const array = { dtype: "uint8", shape: [source.byteLength], strides: [1], byteOffset: 0 };
  return { kind: "buffer", descriptor: describeBuffer(source, { kind: "array", array }) };
}

export function bufferOf(source: DeviceArray | DeviceBuffer): DeviceBuffer {
  return source instanceof DeviceBuffer ? source : source.buffer;
}
