/** Runs the tests of the Python package (python/tests), with Node on the other side. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";

const python = process.env.PYTHON ?? "python3";

function whyNot(): string | false {
  const wanted = "import sys, pytest; sys.exit(sys.version_info < (3, 10))";
  const probe = spawnSync(python, ["-c", wanted], { encoding: "utf8" });
  if (probe.status === 0) return false;
  const problem = probe.error?.message ?? "it is older than 3.10, or has no pytest";
  if (process.env.REQUIRE_PYTHON === "1")
    throw new Error(`REQUIRE_PYTHON=1, but ${python}: ${problem}`);
  return `needs python3 of at least 3.10 with pytest: ${problem}`;
}

test("the tests of the Python package pass", { skip: whyNot(), timeout: 290_000 }, async () => {
  const options = ["-q", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=120"];
  const suite = spawn(python, ["-m", "pytest", ...options, "python"], {
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: "1" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let said = "";
  suite.stdout.on("data", (chunk) => {
    said += chunk;
  });
  const [code] = await once(suite, "close");
  assert.equal(code, 0, said);
  assert.match(said, /\d+ passed/);
});
