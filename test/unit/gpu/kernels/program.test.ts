import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { CudaIpcError } from "../../../../src/base/errors.js";
import type { GpuDriver } from "../../../../src/driver/gpu-driver.js";
import { Device } from "../../../../src/gpu/device.js";
import { Program } from "../../../../src/gpu/kernels/program.js";
import { chooseArchitecture } from "../../../../src/gpu/kernels/program-architecture.js";
import { createFakeGpu } from "../../../support/fake-gpu.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { whyNoNvrtc } from "../../../support/nvrtc.js";
import { TestFolder } from "../../../support/test-folder.js";

const KERNEL = `extern "C" __global__ void scale(float *x, int n, float by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= by;
}
`;

/** A GPU that claims this compute capability. */
function fakeGpu(computeCapability: string): GpuDriver {
  const driver = createFakeGpu();
  return new Proxy(driver, {
    get(target, name) {
      if (name === "describeDevice")
        return (ordinal: number) => ({ ...target.describeDevice(ordinal), computeCapability });
      return Reflect.get(target, name, target);
    },
  });
}

describe("chooseArchitecture", () => {
  const compiler = { version: "13.5", architectures: [75, 80, 90, 100] };
  const choose = (computeCapability?: string, arch?: string) =>
    chooseArchitecture(compiler, { arch, computeCapability, deviceName: "cuda:0" });

  it("returns the requested architecture", () => {
    for (const arch of ["sm_90", "compute_120", "sm_90a"]) assert.equal(choose("8.0", arch), arch);
    for (const arch of ["90", "sm_9", "sm_90 -I/x", "SM_90", ""])
      assert.throws(() => choose(undefined, arch), TypeError);
  });

  it("chooses the device's own, else PTX of the nearest older architecture", () => {
    assert.equal(choose("9.0"), "sm_90");
    assert.equal(choose("8.9"), "compute_80");
    assert.equal(choose("12.1"), "compute_100");
    assert.equal(choose(), "compute_75");
  });

  it("names the compiler's oldest if the device is too old for it", () => {
    assert.throws(() => choose("6.1"), {
      code: "UNSUPPORTED",
      message:
        "Cannot compile for cuda:0: it has compute capability 6.1, and NVRTC 13.5 makes code for " +
        "7.5 and newer; install an older one",
    });
  });
});

describe("Program", { skip: whyNoNvrtc() ?? false }, () => {
  checkLeaks();
  let device: Device;
  before(async () => {
    device = Device.open("cuda:0", () => fakeGpu("9.0"));
    await Program.compile(KERNEL);
  });
  after(() => device.close());

  it("compiles for a device into a cubin, and lists the kernels", async () => {
    const program = await Program.compile(KERNEL, { device });
    assert.equal(program.arch, "sm_90");
    assert.deepEqual([...(program.cubin?.subarray(0, 4) ?? [])], [0x7f, 0x45, 0x4c, 0x46]);
    assert.match(program.ptx, /^\.target sm_90$/m);
    assert.deepEqual(program.kernelNames, ["scale"]);
    assert.equal(program.log, "");
  });

  it("compiles into PTX for the oldest architecture without a device", async () => {
    const program = await Program.compile(KERNEL);
    assert.match(program.arch, /^compute_\d+$/);
    assert.equal(program.cubin, undefined);
    assert.match(program.ptx, /\.visible \.entry scale\(/);
    assert.equal(program.ptx.includes("\0"), false);
  });

  it("accepts macros, folders, the language standard and other options", async () => {
    using folder = new TestFolder();
    mkdirSync(folder.file("include"));
    writeFileSync(folder.file("include/factor.h"), "#define FACTOR 3\n");
    const source = `#include <factor.h>
#if !defined(FAST) || defined(SLOW) || __cplusplus < 202002L || !defined(MORE)
#error an option is missing
#endif
extern "C" __global__ void NAME(int *x) { *x = FACTOR; }`;
    const program = await Program.compile(source, {
      includeDirs: [folder.file("include")],
      defines: { FAST: true, SLOW: false, NAME: "tripled" },
      std: "c++20",
      flags: ["-DMORE"],
    });
    assert.deepEqual(program.kernelNames, ["tripled"]);
  });

  it("includes the compiler's log with line numbers in COMPILE_FAILED", async () => {
    const source = 'extern "C" __global__ void k(int *x) {\n  *x = missing;\n}\n';
    await assert.rejects(Program.compile(source, { name: "broken.cu" }), (error: CudaIpcError) => {
      assert.equal(error.code, "COMPILE_FAILED");
      assert.match(
        error.message,
        /^Cannot compile broken\.cu: nvrtcCompileProgram failed with NVRTC_ERROR_COMPILATION\n/,
      );
      assert.match(error.message, /broken\.cu\(2\): error: identifier "missing" is undefined/);
      return true;
    });
    await assert.rejects(
      Program.compile(KERNEL, { flags: ["--nonsense"] }),
      /unrecognized option --nonsense/,
    );
    await assert.rejects(Program.compile(KERNEL, { arch: "sm_20" }), { code: "COMPILE_FAILED" });
  });

  it("truncates a very long log", async () => {
    const source = Array.from(
      { length: 3000 },
      (_, i) => `#warning number ${i} of a great many warnings`,
    ).join("\n");
    const { log } = await Program.compile(source, { name: "many.cu" });
    assert.ok(log.length < 20_000, `${log.length}`);
    assert.match(log, /^many\.cu\(1\): warning/);
    assert.match(log, /\n\.\.\. \(\d+ bytes more\)$/);
  });

  it("keeps the warnings of a program that compiles", async () => {
    const { log } = await Program.compile('extern "C" __global__ void k() {\n  int unused;\n}');
    assert.match(log, /program\.cu\(2\): warning .*"unused" was declared but never referenced/);
  });

  it("does not block the event loop while it compiles", async () => {
    let turns = 0;
    let done = false;
    const compiled = Program.compile(slow()).finally(() => {
      done = true;
    });
    while (!done) {
      await new Promise((resolve) => setImmediate(resolve));
      turns += 1;
    }
    await compiled;
    assert.ok(turns > 10, `${turns} turns`);
  });

  it("ends the wait after a timeout or an abort; the compilation ends by itself", async () => {
    const controller = new AbortController();
    const aborted = Program.compile(slow(), { signal: controller.signal });
    controller.abort();
    await assert.rejects(aborted, { code: "ABORTED" });
    await assert.rejects(Program.compile(slow(), { timeoutMs: 0 }), { code: "TIMEOUT" });
    await assert.rejects(Program.compile(slow(), { timeoutMs: 1 }), { code: "TIMEOUT" });
    await assert.rejects(Program.compile(KERNEL, { signal: AbortSignal.abort() }), {
      code: "ABORTED",
    });
    assert.deepEqual((await Program.compile(KERNEL)).kernelNames, ["scale"]);
  });

  it("compiles several programs at once", async () => {
    const names = ["a", "b", "c", "d", "e", "f"];
    const programs = names.map((name) =>
      Program.compile(`extern "C" __global__ void ${name}() {}`),
    );
    const found = (await Promise.all(programs)).map((program) => program.kernelNames[0]);
    assert.deepEqual(found, names);
  });

  it("refuses misuse before anything is compiled", async () => {
    const attempts: readonly Promise<unknown>[] = [
      Program.compile(1 as never),
      Program.compile("a\0b"),
      Program.compile(KERNEL, { name: "a\0.cu" }),
      Program.compile(KERNEL, { defines: { "A=1 -I/": 1 } }),
      Program.compile(KERNEL, { defines: { A: "1\0" } }),
      Program.compile(KERNEL, { includeDirs: [1 as never] }),
      Program.compile(KERNEL, { arch: "newest" }),
      Program.compile(KERNEL, { signal: {} as never }),
    ];
    for (const attempt of attempts) await assert.rejects(attempt, TypeError);
    using host = Device.open("host");
    await assert.rejects(Program.compile(KERNEL, { device: host }), { code: "UNSUPPORTED" });
  });

  it("refuses a device that is too old for the compiler, with a reason", async () => {
    using old = Device.open("cuda:0", () => fakeGpu("3.5"));
    const isTold = (error: CudaIpcError) =>
      error instanceof CudaIpcError && error.code === "UNSUPPORTED";
    await assert.rejects(Program.compile(KERNEL, { device: old }), isTold);
  });
});

/** A source that takes long to compile. */
function slow(): string {
  const kernels = Array.from(
    { length: 8 },
    (_, i) =>
      `extern "C" __global__ void k${i}(double *x) {
        for (int j = 0; j < 64; j++) x[j] = sin(x[j] * ${i}.5) + pow(x[j], 1.5);
      }`,
  );
  return kernels.join("\n");
}
