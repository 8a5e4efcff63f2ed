/** Runs tests of the Python package by pytest, if there is one. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";

const python = process.env.PYTHON ?? "python3";

/** Why pytest cannot run; false if it can. @throws if REQUIRE_PYTHON=1 and it cannot */
export const noPytest = whyNot();

function whyNot(): string | false {
  const wanted = "import sys, pytest; sys.exit(sys.version_info < (3, 10))";
  const probe = spawnSync(python, ["-c", wanted], { encoding: "utf8" });
  if (probe.status === 0) return false;
  const problem = probe.error?.message ?? "it is older than 3.10, or has no pytest";
  if (process.env.REQUIRE_PYTHON === "1")
    throw new Error(`REQUIRE_PYTHON=1, but ${python}: ${problem}`);
  return `needs python3 of at least 3.10 with pytest: ${problem}`;
}

/** Returns what pytest says. Throws it if a test fails. */
export async function runPytest(
  tests: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<string> {
  const options = ["-q", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=120"];
  const suite = spawn(python, ["-m", "pytest", ...options, ...tests], {
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
