/**
 * A driver that claims to be CUDA and does its work later, through the host driver. It lets the
 * layers above use staging memory, streams and waits without a GPU.
 */
import type { GpuDriver } from "../../src/driver/gpu-driver.js";
import { createHostDriver } from "../../src/driver/host/host-driver.js";

const FAKE_UUID = "GPU-00000000-0000-0000-0000-000000000000";

export interface FakeGpuOptions {
  readonly uuid?: string;
  /** Whether it reaches the memory of other GPUs. */
  readonly reachesPeers?: boolean;
  /**
   * The driver that does the work. The caller closes it. GPUs that copy to each other share one.
   */
  readonly host?: GpuDriver;
}

export function createFakeGpu({
  uuid = FAKE_UUID,
  reachesPeers = true,
  host,
}: FakeGpuOptions = {}): GpuDriver {
  const facts = { id: "cuda:0", reference: { kind: "cuda", uuid }, alignmentBytes: 256 } as const;
  return new Proxy(host ?? createHostDriver(), {
    get(target, name) {
      if (name === "mechanism") return "vmm";
      if (name === "cpuVisible" || name === "memoryFiles") return false;
      if (name === "losesContext") return true;
      if (name === "close" && host !== undefined) return () => {};
      if (name === "canAccessPeer") return () => reachesPeers;
      if (name === "cpuAddress") return () => undefined;
      if (name === "describeDevice")
        return (ordinal: number) => ({ ...target.describeDevice(ordinal), ...facts });
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === "function"
        ? (...values: unknown[]) => Reflect.apply(member, target, values)
        : member;
    },
  });
}
