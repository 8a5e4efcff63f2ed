import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { describe, it } from "node:test";
import type { SharedLibrary } from "../../../src/ffi/libcuda.js";
import { findLibucp, placesOf } from "../../../src/ffi/libucp-search.js";
import { TestFolder } from "../../support/test-folder.js";

/** A libucp of this version, which may lack a function. */
function library(version: readonly [number, number, number], lacks?: string): SharedLibrary {
  return {
    func: (symbol) => {
      if (symbol === lacks) throw new Error(`no symbol ${symbol}`);
      if (symbol !== "ucp_get_version") return () => 0;
      return (...out: never[]) => {
        for (const [i, part] of version.entries()) (out[i] as unknown as Uint32Array)[0] = part;
      };
    },
  };
}

function put(folder: TestFolder, path: string): string {
  const file = folder.file(path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, "");
  return file;
}

describe("the search for libucp", () => {
  it("goes from the variable to the loader, conda and Python's packages", () => {
    using folder = new TestFolder();
    const conda = put(folder, "conda/lib/libucp.so.0");
    const wheel = put(folder, "venv/lib/python3.11/site-packages/libucx/lib/libucp.so.0");
    const onPath = put(folder, "py/lib/python3.12/site-packages/libucx/lib/libucp.so.0");
    put(folder, "no/lib");
    const env = {
      CONDA_PREFIX: folder.file("conda"),
      VIRTUAL_ENV: folder.file("venv"),
      PATH: `:py/bin:${folder.file("no/bin")}:${folder.file("py/bin")}`,
    };
    const found = placesOf(env).filter((it) => !it.startsWith("/") || it.startsWith(folder.path));
    assert.deepEqual(found, ["libucp.so.0", conda, wheel, onPath]);
    assert.deepEqual(placesOf({ ...env, CUDA_IPC_UCX: "/mine" }), ["/mine"]);
  });

  it("passes over libraries that are too old or lack a function", () => {
    using folder = new TestFolder();
    const conda = put(folder, "conda/lib/libucp.so.0");
    const env = { CONDA_PREFIX: folder.file("conda") };
    for (const old of [
      library([1, 12, 9]),
      library([2, 0, 0]),
      library([1, 22, 0], "ucp_cleanup"),
    ]) {
      const found = findLibucp(env, (path) => (path === conda ? library([1, 13, 0]) : old));
      assert.deepEqual([found.path, found.version], [conda, "1.13.0"]);
    }
  });

  it("names everything that it tried, and how to get one", () => {
    const load = (path: string): SharedLibrary => {
      throw new Error(`cannot open ${path}`);
    };
    assert.throws(() => findLibucp({ CUDA_IPC_UCX: "/no/such.so" }, load), {
      code: "ENGINE_NOT_FOUND",
      message: "Cannot open UCX, tried CUDA_IPC_UCX=/no/such.so (cannot open /no/such.so)",
      remedy: /apt install libucx0.*pip install libucx-cu13.*conda/,
    });
    const old = { CUDA_IPC_UCX: "/old.so" };
    assert.throws(() => findLibucp(old, () => library([1, 12, 0])), /it is UCX 1\.12\.0, wanted/);
  });

  it("sends the log of UCX to standard error, unless UCX_LOG_FILE says otherwise", () => {
    const env: NodeJS.ProcessEnv = { CUDA_IPC_UCX: "/mine.so", UCX_LOG_LEVEL: "info" };
    findLibucp(env, () => library([1, 18, 0]));
    assert.deepEqual([env.UCX_LOG_FILE, env.UCX_LOG_LEVEL], ["stderr", "info"]);
    const chosen = { ...env, UCX_LOG_FILE: "/tmp/ucx.log" };
    findLibucp(chosen, () => library([1, 18, 0]));
    assert.equal(chosen.UCX_LOG_FILE, "/tmp/ucx.log");
  });
});
