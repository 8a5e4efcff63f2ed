/**
 * The client in C, while the other side of a channel changes its words before each load. Its calls
 * end all the same. unit/ring/bounded-looks.test.ts has the same cases for the library.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { before, describe, it } from "node:test";
import { limits } from "../../../src/base/limits.js";
import { CLAIMS } from "../../../src/ring/channel-layout.js";
import { CPrograms, skip } from "./c-programs.js";

/** More than the loads of one look. */
const LOADS = limits.channelLooksMax * 20;

describe("the client in C, beside words that change at each load", { skip }, () => {
  let program: string;
  before(() => {
    program = new CPrograms().including("restless.c");
  });

  /** How its call ended, and the loads that it took. */
  function run(...args: readonly (string | number)[]): [string, number] {
    const options = { encoding: "utf8", timeout: 120_000 } as const;
    const { status, stdout, stderr } = spawnSync(program, args.map(String), options);
    assert.equal(status, 0, stderr);
    return JSON.parse(stdout);
  }

  for (const [kind, mode] of [
    ["outruns", "lossy"],
    ["passes", "lossy"],
    ["passes", "waited"],
    ["loses", "lossy"],
    ["loses", "waited"],
  ] as const) {
    it(`ends a take from a writer that ${kind} at each look: ${mode}`, () => {
      const [how, loads] = run("takes", kind, mode);
      assert.equal(how, "outrun");
      assert.ok(loads < LOADS, `${loads} loads`);
    });
  }

  it("ends next() at its deadline, and says why", () => {
    const found = "its writer never stops changing its words";
    const [how] = run("nexts", 1);
    assert.equal(how, `Cannot read "" within 1 ms: ${found}`);
  });

  for (const from of ["next", "oldest", "latest"] as const) {
    it(`ends an attachment if the limit rises at each look, from ${from} on`, () => {
      for (const [mode, wanted] of [
        ["lossy", "OK"],
        ["waited", "CHANNEL_CORRUPT"],
      ] as const) {
        const [how, loads] = run("attaches", "rises", mode, from);
        assert.equal(how, wanted);
        assert.ok(loads < LOADS, `${loads} loads`);
      }
    });

    it(`looks at each header at most twice, and a few more, from ${from} on`, () => {
      const [how, loads] = run("attaches", "hides", "lossy", from);
      assert.equal(how, "OK");
      assert.ok(loads < 4 * 1024 + LOADS, `${loads} loads`);
    });

    it(`never takes an honest writer for a broken one, from ${from} on`, () => {
      for (const slots of [1, 4])
        for (const count of [1, 9]) {
          assert.deepEqual(run("honest", "waited", from, slots, count)[0], "OK");
          const [how, loads] = run("honest", "lossy", from, slots, count);
          assert.equal(how, "outrun", "it writes faster than this reader looks");
          assert.ok(loads < LOADS, `${loads} loads`);
        }
    });
  }

  it("passes over as many slots as readers can hold and a few more", () => {
    assert.deepEqual(run("writes"), ["full", CLAIMS + limits.channelLooksMax + 1]);
  });

  it("waits once for a reader's stream that is done at every other look", () => {
    assert.equal(run("waits")[0], "OK");
  });
});
