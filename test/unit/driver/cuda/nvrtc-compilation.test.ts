/** Resources of the run-time compiler, on a fake in JavaScript that ends when the test says so. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Deadline } from "../../../../src/base/deadline.js";
import { openCompiler } from "../../../../src/driver/cuda/nvrtc-compilation.js";
import type { LoadLibrary } from "../../../../src/ffi/libcuda.js";

type Finish = (failure: unknown, result: number) => void;

class FakeNvrtc {
  live = 0;
  options: readonly string[] = [];
  log = "";
  /** Ends the running compilation. */
  finish: Finish = () => assert.fail("nothing is under way");
  readonly #fail: string | undefined;

  constructor(fail?: string) {
    this.#fail = fail;
  }

  readonly load: LoadLibrary = () => ({
    func: (symbol) => {
      const call = (...values: unknown[]): unknown => {
        if (symbol === "nvrtcGetErrorString") return `words of ${values[0]}`;
        if (symbol === "nvrtcDestroyProgram") this.live -= 1;
        if (symbol === this.#fail) return 11;
        if (symbol === "nvrtcCreateProgram") this.live += 1;
        if (symbol === "nvrtcGetNumSupportedArchs") (values[0] as Int32Array)[0] = 2;
        if (symbol === "nvrtcGetSupportedArchs") (values[0] as Int32Array).set([90, 75]);
        if (symbol.endsWith("Size")) (values[1] as BigUint64Array)[0] = 4n;
        if (symbol === "nvrtcGetProgramLogSize")
          (values[1] as BigUint64Array)[0] = BigInt(this.log.length + 1);
        if (symbol === "nvrtcGetProgramLog")
          new TextEncoder().encodeInto(this.log, values[1] as Uint8Array);
        return 0;
      };
      const start = (_program: bigint, _count: number, options: string[], finish: Finish): void => {
        this.options = options;
        this.finish = finish;
      };
      return Object.assign(call, { async: start });
    },
  });
}

const request = { source: "", name: "k.cu", options: ["-a", "-b"], cubin: true };
const unlimited = () => new Deadline("compile k.cu", {}, Number.POSITIVE_INFINITY);
const turn = () => new Promise((resolve) => setImmediate(resolve));

describe("openCompiler", () => {
  it("reports version and architectures, oldest first", () => {
    const { version, architectures } = openCompiler(new FakeNvrtc().load);
    assert.deepEqual([version, architectures], ["0.0", [75, 90]]);
  });

  it("destroys the program after success and after failure", async () => {
    for (const result of [0, 6]) {
      const fake = new FakeNvrtc();
      const compiled = openCompiler(fake.load).compile(request, unlimited());
      assert.deepEqual([fake.live, fake.options], [1, ["-a", "-b"]]);
      fake.finish(null, result);
      if (result === 0) await compiled;
      else
        await assert.rejects(compiled, {
          code: "COMPILE_FAILED",
          message: /failed with words of 6$/,
        });
      assert.equal(fake.live, 0);
    }
  });

  it("puts the compiler's log with its line numbers into the error", async () => {
    const fake = new FakeNvrtc();
    fake.log = 'k.cu(2): error: identifier "missing" is undefined\n';
    const compiled = openCompiler(fake.load).compile(request, unlimited());
    fake.finish(null, 6);
    const message = `Cannot compile k.cu: nvrtcCompileProgram failed with words of 6\n${fake.log.trim()}`;
    await assert.rejects(compiled, { code: "COMPILE_FAILED", message });
    assert.equal(fake.live, 0);
  });

  for (const call of [
    "nvrtcCreateProgram",
    "nvrtcGetProgramLogSize",
    "nvrtcGetProgramLog",
    "nvrtcGetPTX",
    "nvrtcGetCUBIN",
  ]) {
    it(`leaves nothing behind after ${call} failed`, async () => {
      const fake = new FakeNvrtc(call);
      const compiled = openCompiler(fake.load).compile(request, unlimited());
      if (call !== "nvrtcCreateProgram") fake.finish(null, 0);
      await assert.rejects(compiled, {
        message: `Cannot compile k.cu: ${call} failed with words of 11 (11)`,
      });
      assert.equal(fake.live, 0);
    });
  }

  it("destroys an abandoned program only when the compiler is done with it", async () => {
    for (const result of [0, 6]) {
      const fake = new FakeNvrtc();
      const controller = new AbortController();
      const deadline = new Deadline(
        "compile k.cu",
        { signal: controller.signal },
        Number.POSITIVE_INFINITY,
      );
      const compiled = openCompiler(fake.load).compile(request, deadline);
      controller.abort();
      await assert.rejects(compiled, { code: "ABORTED" });
      assert.equal(fake.live, 1);
      fake.finish(null, result);
      await turn();
      assert.equal(fake.live, 0);
    }
  });

  it("starts nothing after the deadline", async () => {
    const fake = new FakeNvrtc();
    const late = new Deadline("compile k.cu", { timeoutMs: 0 }, 0);
    await assert.rejects(openCompiler(fake.load).compile(request, late), { code: "TIMEOUT" });
    assert.equal(fake.live, 0);
  });
});
