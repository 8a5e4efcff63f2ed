import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { packageVersion } from "../../../src/base/version.js";
import { TestFolder } from "../../support/test-folder.js";

const LAUNCH = fileURLToPath(new URL("../../../src/cli/launch.cjs", import.meta.url));
const SAID_IN_WORDS = /^error\[TOO_MANY_FDS\]: .+\.\n {2}hint: .+ulimit -n.+\n$/;

/** What comes of the command with so few files; the words are wanted wherever Node itself gets as far as our launcher. */
function outcomeAt(limit: number): "works" | "words" | "Node fails" {
  const script = `ulimit -n ${limit} && exec "$0" "$1" --version`;
  const { status, stdout, stderr } = spawnSync("sh", ["-c", script, process.execPath, LAUNCH], {
    encoding: "utf8",
    // WHY without what else the runner sets: options of Node could open files before the launcher runs.
    env: { PATH: process.env.PATH },
  });
  if (status === 0) {
    assert.equal(stdout, `${packageVersion()}\n`);
    return "works";
  }
  if (stderr === "" || /EMFILE[^\n]*launch\.cjs'/.test(stderr)) return "Node fails";
  assert.match(stderr, SAID_IN_WORDS);
  assert.deepEqual([status, stdout], [1, ""]);
  return "words";
}

describe("cuda-ipc with next to no open files", () => {
  it("works, or says so in words, wherever Node itself does", (t) => {
    const outcomes = new Map([16, 20, 24, 32, 48, 64, 128].map((limit) => [limit, outcomeAt(limit)]));
    t.diagnostic([...outcomes].map(([limit, outcome]) => `${limit}: ${outcome}`).join(", "));
    assert.equal(outcomes.get(128), "works");
    // WHY only here: later versions load modules one after the other and hardly ever run out of files.
    if (Number.parseInt(process.versions.node, 10) < 22) assert.ok([...outcomes.values()].includes("words"));
  });

  it("blames the full table, not the installation, if Node cannot open a package's main file", () => {
    const { status, stderr } = launchWith(`openAll(); ${NOT_FOUND}`);
    assert.match(stderr, SAID_IN_WORDS);
    assert.equal(status, 1);
  });

  it("reports a package that is really missing as Node does", () => {
    const { status, stderr } = launchWith(NOT_FOUND);
    assert.match(stderr, /Cannot find package '.*\/no-such-package\/index.js'/);
    assert.equal(status, 1);
  });
});

/** What Node throws if the main file of a package cannot be opened, for whatever reason. */
const NOT_FOUND = `throw Object.assign(
  new Error("Cannot find package '/node_modules/no-such-package/index.js' imported from x.js"),
  { code: "ERR_MODULE_NOT_FOUND" });`;

/** Runs the launcher with a program that fails to load in this way. */
function launchWith(script: string): { status: number | null; stderr: string } {
  using folder = new TestFolder();
  for (const name of ["cli", "base"]) mkdirSync(folder.file(name));
  writeFileSync(folder.file("base/check-runtime.js"), "export function checkRuntime() {}");
  const launcher = folder.file("cli/launch.cjs");
  copyFileSync(LAUNCH, launcher);
  const openAll = `function openAll() { try { for (;;) openSync("/dev/null", "r"); } catch {} }`;
  writeFileSync(folder.file("package.json"), `{ "type": "module" }`);
  writeFileSync(folder.file("cli/main.js"), `import { openSync } from "node:fs";\n${openAll}\n${script}\n`);
  const limited = `ulimit -n 256 && exec "$0" "$1"`;
  return spawnSync("sh", ["-c", limited, process.execPath, launcher], { encoding: "utf8" });
}
