import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { describe, it } from "node:test";

/** Loads python.ts in a process without Python. */
function loadWithoutPython(environment: Readonly<Record<string, string>>): {
  status: number | null;
  output: string;
} {
  const script = `const { skipWithoutPython } = await import(${JSON.stringify(new URL("python.js", import.meta.url).href)});
    console.log(skipWithoutPython);`;
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ["--input-type=module", "-e", script],
    {
      encoding: "utf8",
      env: { ...process.env, PYTHON: "/nowhere/python3", ...environment },
    },
  );
  return { status, output: stdout + stderr };
}

describe("skipWithoutPython", () => {
  it("says why the tests are skipped", () => {
    const { status, output } = loadWithoutPython({ REQUIRE_PYTHON: "" });
    assert.equal(status, 0);
    assert.match(output, /^needs python3 with numpy, safetensors and ml_dtypes: .*ENOENT/);
  });

  it("fails instead under REQUIRE_PYTHON=1", () => {
    const { status, output } = loadWithoutPython({ REQUIRE_PYTHON: "1" });
    assert.equal(status, 1);
    assert.match(output, /REQUIRE_PYTHON=1, but .*ENOENT/);
  });
});
