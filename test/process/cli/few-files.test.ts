import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { packageVersion } from "../../../src/base/own-package.js";
import { TestFolder } from "../../support/test-folder.js";

const LAUNCH = fileURLToPath(new URL("../../../src/cli/launch.cjs", import.meta.url));
const SAID_IN_WORDS = /^error\[TOO_MANY_FDS\]: .+\.\n {2}hint: .+ulimit -n.+\n$/;

/**
 * The outcome of the command if it can open only this many files after its launcher starts.
 * WHY not a limit for all of Node: the number of files that Node opens at once while it loads
 * modules depends on the disk.
 */
function outcomeWith(free: number): "works" | "words" {
  using folder = new TestFolder();
  const preload = folder.file("fills-table.cjs");
  // The launcher asks for the number of cores before it loads anything else.
  writeFileSync(
    preload,
    `const { closeSync, openSync } = require("node:fs");
    const os = require("node:os");
    const { availableParallelism } = os;
    os.availableParallelism = () => {
      const fds = [];
      try { for (;;) fds.push(openSync("/dev/null", "r")); } catch {}
      for (const fd of fds.slice(0, ${free})) closeSync(fd);
      return availableParallelism();
    };`,
  );
  const script = `ulimit -n 256 && exec "$0" --require "$1" "$2" --version`;
  const { status, stdout, stderr } = spawnSync(
    "sh",
    ["-c", script, process.execPath, preload, LAUNCH],
    {
      encoding: "utf8",
      // Without the runner's other options, which could open files before the launcher runs.
      env: { PATH: process.env.PATH },
    },
  );
  if (status === 0) {
    assert.equal(stdout, `${packageVersion()}\n`);
    return "works";
  }
  assert.match(stderr, SAID_IN_WORDS);
  assert.deepEqual([status, stdout], [1, ""]);
  return "words";
}

describe("cuda-ipc with a low limit of open files", () => {
  it("prints an error if it can open none", () => {
    assert.equal(outcomeWith(0), "words");
  });

  it("works or prints an error with every limit from 1 on", (t) => {
    const outcomes = [1, 2, 3, 4, 6, 8, 12, 16].map((free) => `${free}: ${outcomeWith(free)}`);
    t.diagnostic(outcomes.join(", "));
  });

  it("works with 64 files", () => {
    assert.equal(outcomeWith(64), "works");
  });

  // Node closes its other files before or after this error: it reads modules in several threads.
  for (const free of [0, 8]) {
    it(`blames the limit, not the installation, for a missing package with ${free} files free`, () => {
      const { status, stderr } = launchWith(`openAllBut(${free}); ${NOT_FOUND}`);
      assert.match(stderr, SAID_IN_WORDS);
      assert.equal(status, 1);
    });
  }

  it("reports a package that is really missing as Node does", () => {
    const { status, stderr } = launchWith(NOT_FOUND);
    assert.match(stderr, /Cannot find package '.*\/no-such-package\/index.js'/);
    assert.equal(status, 1);
  });
});

/** The error that Node throws if it cannot open a package's main file, for whatever reason. */
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
  const openAllBut = `function openAllBut(free) {
    const fds = [];
    try { for (;;) fds.push(openSync("/dev/null", "r")); } catch {}
    for (const fd of fds.slice(0, free)) closeSync(fd);
  }`;
  writeFileSync(folder.file("package.json"), `{ "type": "module" }`);
  writeFileSync(
    folder.file("cli/main.js"),
    `import { closeSync, openSync } from "node:fs";\n${openAllBut}\n${script}\n`,
  );
  const limited = `ulimit -n 256 && exec "$0" "$1"`;
  return spawnSync("sh", ["-c", limited, process.execPath, launcher], { encoding: "utf8" });
}
