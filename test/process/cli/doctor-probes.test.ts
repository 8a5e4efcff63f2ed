/** The doctor's probes with a second process, also on devices that work wrongly. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../src/base/errors.js";
import { check, checkMechanism } from "../../../src/cli/doctor/check.js";
import { ProbePeer } from "../../../src/cli/doctor/probe-peer.js";
import { processProbes } from "../../../src/cli/doctor/process-probes.js";
import type { GpuDriver } from "../../../src/driver/gpu-driver.js";
import { createHostDriver } from "../../../src/driver/host/host-driver.js";
import { Device } from "../../../src/gpu/device.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestRuntime } from "../../support/test-runtime.js";
import { soon } from "../../support/until.js";

const never = new AbortController().signal;
const options = { signal: never, timeoutMs: 60_000 };

function deviceWith(changes: (honest: GpuDriver) => Partial<GpuDriver>): Device {
  const honest = createHostDriver();
  return Device.open("host", () => ({ ...honest, ...changes(honest) }));
}

function probe(name: string): (device: Device) => Promise<string> {
  const found = processProbes.find((each) => each.name === name);
  assert.ok(found !== undefined, name);
  return (device) => found.run(device, options);
}

/** True if the process is gone, and is no zombie either. */
function isGone(pid: number): boolean {
  try {
    readFileSync(`/proc/${pid}/stat`);
    return false;
  } catch {
    return true;
  }
}

describe("probes with a second process", () => {
  checkLeaks();

  for (const { name, run } of processProbes) {
    it(`pass on the host device and leave nothing behind: ${name}`, async () => {
      using _runtime = new TestRuntime();
      using device = Device.open("host");
      assert.match(await run(device, options), /\S/);
    });

    it(`end when they are aborted: ${name}`, async () => {
      using _runtime = new TestRuntime();
      using device = Device.open("host");
      await assert.rejects(run(device, { signal: never, timeoutMs: 1 }), { code: "TIMEOUT" });
      await assert.rejects(run(device, { signal: AbortSignal.abort(), timeoutMs: 60_000 }), {
        code: "ABORTED",
      });
    });
  }

  it("detect a handle that opens other memory", async () => {
    using _runtime = new TestRuntime();
    using device = deviceWith((honest) => ({
      importLegacy: (ordinal, handle, access) => {
        const { pointer, blockByteLength } = honest.importLegacy(ordinal, handle, access);
        honest.closeLegacy(ordinal, pointer);
        return { pointer: honest.allocateLegacy(ordinal, blockByteLength), blockByteLength };
      },
      closeLegacy: (ordinal, pointer) => honest.freeLegacy(ordinal, pointer),
    }));
    await assert.rejects(probe("legacy handles")(device), {
      code: "VERIFICATION_FAILED",
      message: /^Byte 1 of memory opened by its handle is 0/,
    });
  });

  it("detect an event that is done before its work", async () => {
    using _runtime = new TestRuntime();
    using device = deviceWith(() => ({ isEventDone: () => true }));
    await assert.rejects(probe("events")(device), {
      code: "VERIFICATION_FAILED",
      message: /is done before its work is/,
    });
  });

  it("detect pool memory that another process cannot read", async () => {
    using _runtime = new TestRuntime();
    using device = deviceWith((honest) => ({
      exportPoolPointer: (pointer) => honest.exportPoolPointer(pointer).fill(7),
    }));
    await assert.rejects(probe("memory pools")(device), {
      code: "INVALID_HANDLE",
      message: /^In a second process: /,
    });
  });

  it("report what a device does not support, without failing", async () => {
    using _runtime = new TestRuntime();
    using device = deviceWith(() => ({
      createPool: () => {
        throw new CudaIpcError("UNSUPPORTED", "Cannot create a pool: this device has none");
      },
    }));
    const run = () => probe("memory pools")(device);
    const found = {
      name: "pools",
      detail: "UNSUPPORTED: Cannot create a pool: this device has none",
    };
    assert.deepEqual(await checkMechanism("pools", run), { ...found, state: "not supported" });
    assert.deepEqual(await check("pools", run), { ...found, state: "missing" });
    const remedy = "Set UCX_TLS.";
    const advised = () => Promise.reject(new CudaIpcError("UNSUPPORTED", "x", { remedy }));
    assert.equal((await check("UCX", advised)).toDo, remedy);
    const fails = () => Promise.reject(new CudaIpcError("CUDA_ERROR", "it failed"));
    assert.equal((await checkMechanism("pools", fails)).state, "failed");
    assert.equal((await checkMechanism("pools", fails, true)).state, "not supported");
  });
});

describe("ProbePeer", () => {
  checkLeaks();

  it("reports a killed process, and leaves none behind", async () => {
    using _runtime = new TestRuntime();
    let pid: number;
    {
      await using peer = ProbePeer.start("pool", "host", options);
      pid = peer.pid;
      process.kill(pid, "SIGKILL");
      await soon(
        "it ends",
        assert.rejects(peer.says(), { code: "PEER_GONE", message: /too early, with SIGKILL$/ }),
      );
    }
    assert.ok(isGone(pid));
  });

  it("ends a waiting process", async () => {
    using _runtime = new TestRuntime();
    let pid: number;
    {
      await using peer = ProbePeer.start("event", "host", options);
      pid = peer.pid;
      await peer.says();
    }
    assert.ok(isGone(pid));
  });

  it("throws the failure of the process", async () => {
    using _runtime = new TestRuntime();
    await using peer = ProbePeer.start("legacy", "nonsense", options);
    await assert.rejects(peer.says(), {
      code: "INVALID_DEVICE",
      message: /^In a second process: Cannot open device/,
    });
  });
});
