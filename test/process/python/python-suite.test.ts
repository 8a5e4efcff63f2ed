/**
 * Runs the tests of the Python package (python/tests), with Node on the other side. Those of GPU
 * memory run on the libcuda that is written in C.
 */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { findCudaHeader } from "../../unit/ffi/cuda-header.js";

const python = process.env.PYTHON ?? "python3";
const skip = whyNot();
const header = findCudaHeader();

function whyNot(): string | false {
  const wanted = "import sys, pytest; sys.exit(sys.version_info < (3, 10))";
  const probe = spawnSync(python, ["-c", wanted], { encoding: "utf8" });
  if (probe.status === 0) return false;
  const problem = probe.error?.message ?? "it is older than 3.10, or has no pytest";
  if (process.env.REQUIRE_PYTHON === "1")
    throw new Error(`REQUIRE_PYTHON=1, but ${python}: ${problem}`);
  return `needs python3 of at least 3.10 with pytest: ${problem}`;
}

async function run(tests: string, env: NodeJS.ProcessEnv = {}): Promise<string> {
  const options = ["-q", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=120"];
  const suite = spawn(python, ["-m", "pytest", ...options, tests], {
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: "1", ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let said = "";
  suite.stdout.on("data", (chunk) => {
    said += chunk;
  });
  const [code] = await once(suite, "close");
  assert.equal(code, 0, said);
  return said;
}

test("the tests of the Python package pass", { skip, timeout: 290_000 }, async () => {
  assert.match(await run("python"), /\d+ passed/);
});

test("those of GPU memory pass on a libcuda in C", {
  skip: skip || (typeof header === "string" && process.env.REQUIRE_CUDA_HEADER !== "1" && header),
}, async () => {
  if (typeof header === "string") assert.fail(header);
  const folder = mkdtempSync(join(tmpdir(), "libcuda-in-c-"));
  try {
    const library = join(folder, "libcuda.so.1");
    header.compile("test/conformance/libcuda-in-c/libcuda.c", library, ["-shared", "-fPIC", "-O1"]);
    const said = await run("python/tests/test_cuda.py", { LD_LIBRARY_PATH: folder });
    assert.match(said, /\d+ passed/);
    assert.doesNotMatch(said, /skipped/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
