/** Runs tests of the Python package by pytest, if there is one. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";

const python = process.env.PYTHON ?? "python3";

/** The bundle for GPU machines brings pytest along (scripts/gpu-bundle.mjs). */
const packages = [process.env.PYTHONPATH, resolve("python/packages")].filter(Boolean).join(":");
const base = {
  ...process.env,
  PYTHONDONTWRITEBYTECODE: "1",
  PYTHONPATH: packages,
  // Those of the machine may be for another version of pytest.
  PYTEST_DISABLE_PLUGIN_AUTOLOAD: "1",
};

/** The tests that need a GPU, or the libcuda that is written in C. */
export const GPU_TESTS = [
  "descriptors",
  "cuda",
  "gpu_asyncio",
  "legacy",
  "streams",
  "stream_ends",
  "service_streams",
  "timeline_streams",
].map((name) => `python/tests/test_${name}.py`);

/** Why pytest cannot run; false if it can. @throws if REQUIRE_PYTHON=1 and it cannot */
export const noPytest = whyNot();

function whyNot(): string | false {
  const wanted = "import sys, pytest; sys.exit(sys.version_info < (3, 10))";
  const probe = spawnSync(python, ["-c", wanted], { encoding: "utf8", env: base });
  if (probe.status === 0) return false;
  const problem = probe.error?.message ?? "it is older than 3.10, or has no pytest";
  if (process.env.REQUIRE_PYTHON === "1")
    throw new Error(`REQUIRE_PYTHON=1, but ${python}: ${problem}`);
  return `needs python3 of at least 3.10 with pytest: ${problem}`;
}

/** The exit code if all modules are skipped, as without numpy. `REQUIRE_TORCH=1` forbids that. */
const NONE_COLLECTED = 5;

/** Returns what pytest says. Throws it if a test fails. */
export async function runPytest(
  tests: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<string> {
  const options = ["-q", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=120"];
  const suite = spawn(python, ["-m", "pytest", ...options, ...tests], {
    env: { ...base, ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let said = "";
  suite.stdout.on("data", (chunk) => {
    said += chunk;
  });
  const [code] = await once(suite, "close");
  assert.ok(code === 0 || code === NONE_COLLECTED, said);
  return said;
}
