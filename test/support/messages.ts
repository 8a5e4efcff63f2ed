/** Well-formed messages and descriptors, for tests that send them or spoil them. */
import type { Descriptor } from "../../src/wire/descriptor.js";
import type { Request } from "../../src/wire/messages.js";
import type { SharedMemoryDocument } from "../../src/wire/shared-document.js";

export const hostArray: Descriptor = {
  version: 1,
  device: { kind: "host" },
  mechanism: "memfd",
  byteLength: 24,
  allocationByteLength: 4096,
  content: { kind: "array", array: { dtype: "float32", shape: [2, 3], strides: [3, 1], byteOffset: 0 } },
};

export const gpuArray: Descriptor = {
  ...hostArray,
  device: { kind: "cuda", uuid: "GPU-01234567-89ab-cdef-0123-456789abcdef" },
  mechanism: "vmm",
};

export function hostBundle(arrayCount: number, indexByteLength: number): Descriptor {
  return { ...hostArray, content: { kind: "bundle", arrayCount, indexByteLength } };
}

export const sharedArray: SharedMemoryDocument = {
  format: "cuda-ipc",
  version: 1,
  kind: "array",
  exporter: { pid: 4242, startTicks: 987_654, bootId: "01234567-89ab-cdef-0123-456789abcdef" },
  access: "read-write",
  descriptor: hostArray,
  fds: { socket: "/run/user/1000/cuda-ipc/peer-4242-0123456789ab.sock", token: "0123456789abcdef0123456789abcdef" },
};

export const timelineDescriptor: Descriptor = {
  ...hostArray,
  byteLength: 4096,
  content: { kind: "timeline", byteOffset: 128 },
};

const head = { v: 1, id: 7 } as const;

/** One request of each kind. */
export const requests: readonly Request[] = [
  { ...head, op: "hello", client: { version: "1.2.3", program: "test" } },
  { ...head, op: "create", name: "frame", lifetime: "held", descriptor: hostArray },
  { ...head, op: "create", name: "frame", lifetime: "pinned", descriptor: hostBundle(3, 200) },
  { ...head, op: "publish", object: 1 },
  { ...head, op: "open", name: "frame", access: "read", wait: true },
  { ...head, op: "cancel", request: 3 },
  { ...head, op: "release", lease: 2 },
  { ...head, op: "remove", name: "frame" },
  { ...head, op: "list" },
  { ...head, op: "list", after: "frame" },
  { ...head, op: "inspect", name: "frame" },
  { ...head, op: "status" },
  { ...head, op: "stop", force: false },
  { ...head, op: "bye" },
];
