import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";

const LAUNCH = fileURLToPath(new URL("../../../src/cli/launch.cjs", import.meta.url));

describe("cuda-ipc with next to no open files", () => {
  for (const limit of [20, 24, 32]) {
    it(`says so in words at ulimit -n ${limit}`, () => {
      const script = `ulimit -n ${limit} && exec "$0" "$1" --version`;
      const { status, stdout, stderr } = spawnSync("sh", ["-c", script, process.execPath, LAUNCH], {
        encoding: "utf8",
        // WHY without what else the runner sets: options of Node could open files before the launcher runs.
        env: { PATH: process.env.PATH },
      });
      assert.match(stderr, /^error\[TOO_MANY_FDS\]: .+\.\n {2}hint: .+ulimit -n.+\n$/);
      assert.deepEqual([status, stdout], [1, ""]);
    });
  }
});
