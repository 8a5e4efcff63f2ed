/**
 * A driver that says that it is CUDA and does its work as the host driver does, later: what the layers above do for a GPU
 * (staging memory, streams, waits) runs without one.
 */
import type { GpuDriver } from "../../src/driver/gpu-driver.js";
import { createHostDriver } from "../../src/driver/host/host-driver.js";

const FAKE_UUID = "GPU-00000000-0000-0000-0000-000000000000";

export function createFakeGpu(): GpuDriver {
  const host = createHostDriver();
  return new Proxy(host, {
    get(target, name) {
      if (name === "kind") return "cuda";
      if (name === "mechanism") return "vmm";
      if (name === "cpuAddress") return () => undefined;
      if (name === "describeDevice")
        return (ordinal: number) => ({ ...target.describeDevice(ordinal), uuid: FAKE_UUID });
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === "function" ? (...values: unknown[]) => Reflect.apply(member, target, values) : member;
    },
  });
}
