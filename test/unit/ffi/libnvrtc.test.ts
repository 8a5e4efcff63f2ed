import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { afterEach, beforeEach, describe, it } from "node:test";
import { CudaIpcError } from "../../../src/base/errors.js";
import type { LoadLibrary, SharedLibrary } from "../../../src/ffi/libcuda.js";
import { openLibnvrtc } from "../../../src/ffi/libnvrtc.js";
import { TestFolder } from "../../support/test-folder.js";

const names = ["CUDA_IPC_NVRTC", "CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV"] as const;

/** A linker that finds the library only at these paths, and records every path it was asked for. */
function linker(...there: string[]): { load: LoadLibrary; asked: string[] } {
  const asked: string[] = [];
  const library: SharedLibrary = { func: () => () => 0 };
  const load = (path: string): SharedLibrary => {
    asked.push(path);
    if (there.includes(path)) return library;
    throw new Error("no such file");
  };
  return { load, asked };
}

describe("openLibnvrtc", () => {
  let folder: TestFolder;
  const kept = new Map<string, string | undefined>();

  beforeEach(() => {
    folder = new TestFolder();
    for (const name of names) {
      kept.set(name, process.env[name]);
      delete process.env[name];
    }
  });
  afterEach(() => {
    for (const [name, value] of kept) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
    folder[Symbol.dispose]();
  });

  const put = (path: string, ...files: string[]): string => {
    mkdirSync(folder.file(path), { recursive: true });
    for (const file of files) writeFileSync(folder.file(`${path}/${file}`), "");
    return folder.file(path);
  };

  it("tries the linker first, newest version first", () => {
    const { load, asked } = linker("libnvrtc.so.12");
    openLibnvrtc(load);
    assert.deepEqual(asked, ["libnvrtc.so.13", "libnvrtc.so.12"]);
  });

  it("opens only the file that CUDA_IPC_NVRTC names, if it is set", () => {
    process.env.CUDA_IPC_NVRTC = "/opt/mine.so";
    const found = linker("/opt/mine.so", "libnvrtc.so.13");
    openLibnvrtc(found.load);
    assert.deepEqual(found.asked, ["/opt/mine.so"]);
    assert.throws(() => openLibnvrtc(linker("libnvrtc.so.13").load), {
      code: "NVRTC_NOT_FOUND",
      message:
        "Cannot open the run-time compiler, tried CUDA_IPC_NVRTC=/opt/mine.so (no such file)",
    });
  });

  it("searches the folders of a toolkit and of the active Python environment", () => {
    const toolkit = put(
      "cuda/lib64",
      "libnvrtc.so.12.4.99",
      "libnvrtc.so.12",
      "libnvrtc.alt.so.12",
      "libnvrtc-builtins.so.12",
    );
    const wheel = put("venv/lib/python3.12/site-packages/nvidia/cu13/lib", "libnvrtc.so.13");
    const older = put("venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib", "libnvrtc.so.12");
    process.env.CUDA_HOME = folder.file("cuda");
    process.env.VIRTUAL_ENV = folder.file("venv");
    for (const path of [
      `${toolkit}/libnvrtc.so.12`,
      `${wheel}/libnvrtc.so.13`,
      `${older}/libnvrtc.so.12`,
    ]) {
      openLibnvrtc(linker(path).load);
    }
    const { load, asked } = linker();
    assert.throws(() => openLibnvrtc(load), { code: "NVRTC_NOT_FOUND" });
    assert.equal(
      asked.some((path) => /alt|builtins/.test(path)),
      false,
    );
  });

  it("names everything it tried", () => {
    process.env.CUDA_PATH = folder.file("nowhere");
    const wheel = put("venv/lib/python3.12/site-packages/nvidia/cu13/lib", "libnvrtc.so.13");
    process.env.VIRTUAL_ENV = folder.file("venv");
    const { load, asked } = linker();
    let message = "";
    try {
      openLibnvrtc(load);
    } catch (error) {
      assert.ok(error instanceof CudaIpcError && error.code === "NVRTC_NOT_FOUND");
      message = error.message;
    }
    for (const path of asked) assert.ok(message.includes(`${path} (no such file)`), path);
    assert.ok(asked.includes(`${wheel}/libnvrtc.so.13`));
    assert.ok(message.includes(`${folder.file("nowhere")}/lib64 (no libnvrtc there)`));
    assert.ok(message.includes("/nvidia/cuda_nvrtc/lib (no libnvrtc there)"));
  });

  it("refuses another library, and names the missing function", () => {
    const load: LoadLibrary = () => ({
      func(symbol) {
        if (symbol === "nvrtcGetCUBIN") throw new Error("no such symbol");
        return () => 0;
      },
    });
    assert.throws(() => openLibnvrtc(load), {
      code: "NVRTC_NOT_FOUND",
      message: /lacks nvrtcGetCUBIN, wanted/,
    });
  });
});
