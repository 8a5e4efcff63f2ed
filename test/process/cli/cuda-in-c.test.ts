/**
 * The command line on a simulated GPU: all processes use the libcuda in C of the conformance suite.
 */
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { encodeNpyHeader } from "../../../src/files/npy-header.js";
import { expectLibcudaInC, skipLibcudaInC } from "../../support/libcuda-in-c.js";
import { CliRig } from "./cli-rig.js";

async function openRig(): Promise<CliRig> {
  const rig = await CliRig.open();
  rig.env.LD_LIBRARY_PATH = expectLibcudaInC().folder;
  rig.env.CUDA_IPC_DEVICE = "auto";
  return rig;
}

describe("cuda-ipc on a libcuda in C", { skip: skipLibcudaInC() }, () => {
  it("finds the driver and probes the device", async () => {
    await using rig = await openRig();
    const { code, stdout: text } = await rig.run("doctor", "--device", "cuda:0");
    assert.match(text, /ok +CUDA driver +\/.+libcuda\.so\.1, .*1 GPU\n/);
    assert.match(text, /shared memory +1 MiB allocated, .+ verified \(vmm\)\n/);
    for (const check of ["legacy handles", "events", "memory pools", "by name"]) {
      assert.match(text, new RegExp(`^  ok +${check} {2,}\\S`, "m"), check);
    }
    // This driver runs no PTX. The later checks still run.
    assert.match(text, /^ {2}failed +element operations {2}INVALID_MODULE: /m);
    assert.match(text, /^Device cuda:0 does not work\.$/m);
    assert.equal(code, 1);
    const absent = await rig.run("doctor", "--device", "cuda:7");
    assert.equal(absent.code, 1);
    assert.match(absent.stdout, /missing +device +DEVICE_NOT_FOUND/);
  });

  it("prints how processes share the GPU, and works anyway", async () => {
    await using rig = await openRig();
    rig.env.CUDA_VISIBLE_DEVICES = "MIG-abababab-abab-abab-abab-abababababab";
    const { stdout: text } = await rig.run("doctor", "--device", "cuda:0");
    const gpu = text.slice(text.indexOf("Device cuda:0"));
    assert.match(
      gpu,
      /^ +MPS +in use: .+\n +- a message between small kernels .+\n +- under MPS, a process that is killed/m,
    );
    assert.match(
      gpu,
      /^ +MIG +this device is a MIG instance\n +- CUDA IPC works between compute instances/m,
    );
    assert.match(gpu, /^ +compute mode +1, unknown to this program .+\n +- .+\n +to do: /m);
    assert.match(gpu, /^ +integrated +the GPU shares the memory of the CPU/m);
  });

  it('chooses the first GPU for "auto", and says so', async () => {
    await using rig = await openRig();
    for (const demo of ["share", "crash"]) {
      assert.match(
        await rig.ok("demo", demo, "-n", "1000"),
        /\nOn cuda:0 \(auto: the first GPU\)\.\n/,
      );
    }
  });

  it("runs the demos that need no kernels", async () => {
    await using rig = await openRig();
    for (const demo of ["pool", "fibonacci", "consumer-first"]) {
      assert.match(
        await rig.ok("demo", demo, "-n", "50", "--device", "cuda:0"),
        /\nDone: every byte was verified/,
      );
    }
  });

  it("copies files to the device and back", async () => {
    await using rig = await openRig();
    const data = Uint8Array.from({ length: 24_000_000 }, (_, i) => i % 251);
    const file = Buffer.concat([
      encodeNpyHeader("float32", [2000, 3000], { fortranOrder: true }),
      data,
    ]);
    await writeFile(rig.path("in.npy"), file);
    await rig.ok("put", "x", "in.npy");
    assert.match(
      await rig.ok("ls"),
      /^x +float32\[2000, 3000\] +22\.9 MiB +GPU-[0-9a-f]{8} +pinned/m,
    );
    assert.match(await rig.ok("inspect", "x"), /mechanism +vmm: .+\n +opened on +cuda:0 /);
    await rig.ok("get", "x", "out.npy");
    assert.equal(Buffer.compare(await readFile(rig.path("out.npy")), file), 0);
  });

  it("prints what it knows about memory on a GPU that it cannot see", async () => {
    await using rig = await openRig();
    await writeFile(rig.path("in.bin"), Uint8Array.of(1, 2, 3));
    assert.match(await rig.ok("put", "x", "in.bin", "--device", "0"), / on cuda:0 /);
    delete rig.env.LD_LIBRARY_PATH;
    const { code, stdout } = await rig.run("inspect", "x");
    assert.equal(code, 0);
    assert.match(stdout, /values +not readable here: (DRIVER|DEVICE)_NOT_FOUND: /);
    assert.equal((await rig.run("get", "x", "out.bin")).code, 1);
  });
});
