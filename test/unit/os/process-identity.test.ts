import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { hasCode } from "../../../src/base/errors.js";
import {
  identityOf,
  openProcess,
  ownIdentity,
  parseStart,
  whereaboutsOf,
} from "../../../src/os/process-identity.js";
import { checkLeaks } from "../../support/leak-check.js";
import { until } from "../../support/until.js";

const ENDS_FIRST_THREAD = fileURLToPath(new URL("./actors/ends-first-thread.js", import.meta.url));
const OTHER_BOOT = "00000000-0000-4000-8000-000000000000";

describe("the identity of a process", () => {
  checkLeaks();

  it("is always the same, and that of a live process", () => {
    const own = ownIdentity();
    assert.equal(own.pid, process.pid);
    assert.deepEqual(identityOf(process.pid), own);
    assert.equal(whereaboutsOf(own), "alive");
  });

  it('is "other-boot" if the boot differs, and "gone" if the start differs', () => {
    const own = ownIdentity();
    assert.equal(whereaboutsOf({ ...own, bootId: OTHER_BOOT }), "other-boot");
    assert.equal(whereaboutsOf({ ...own, startTicks: own.startTicks + 1 }), "gone");
    assert.equal(openProcess({ ...own, startTicks: own.startTicks + 1 }), undefined);
    assert.equal(openProcess({ ...own, bootId: OTHER_BOOT }), undefined);
  });

  it('is "unseen" in another PID namespace', () => {
    const elsewhere = { ...ownIdentity(), pidNamespace: 1 };
    assert.equal(whereaboutsOf(elsewhere), "unseen");
    assert.equal(openProcess(elsewhere), undefined);
  });

  it("ends with the process", async () => {
    const child = spawn("sleep", ["1000"], { stdio: "ignore" });
    const identity = identityOf(child.pid ?? 0);
    assert.ok(identity !== undefined);
    assert.equal(whereaboutsOf(identity), "alive");
    openProcess(identity)?.close();
    const closed = once(child, "close");
    child.kill("SIGKILL");
    await closed;
    assert.equal(whereaboutsOf(identity), "gone");
    assert.equal(identityOf(identity.pid), undefined);
    assert.equal(openProcess(identity), undefined);
  });

  it('is "gone" for a process that has ended but is not reaped', async () => {
    // The shell becomes a program that never reaps its child.
    const parent = spawn("sh", ["-c", "sleep 0.05 & echo $!; exec sleep 1000"], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    try {
      const [text] = (await once(parent.stdout, "data")) as [Buffer];
      const pid = Number(text.toString());
      assert.ok(pid > 0);
      await until("the child has ended", () => identityOf(pid) === undefined);
      process.kill(pid, 0);
    } finally {
      const closed = once(parent, "close");
      parent.kill("SIGKILL");
      await closed;
    }
  });

  it('is "alive" while any thread runs, even if the first has ended', async () => {
    const child = spawn(process.execPath, [ENDS_FIRST_THREAD], { stdio: "ignore" });
    const exited = once(child, "exit");
    try {
      const pid = child.pid ?? 0;
      const isZombie = () => parseStart(readFileSync(`/proc/${pid}/stat`, "utf8")).isZombie;
      const identity = identityOf(pid);
      assert.ok(identity !== undefined);
      await until("its first thread has ended", isZombie);
      assert.deepEqual([identityOf(pid), whereaboutsOf(identity)], [identity, "alive"]);
      const pidfd = openProcess(identity);
      assert.ok(pidfd !== undefined);
      pidfd.close();
    } finally {
      child.kill("SIGKILL");
      await exited;
    }
  });

  it("is undefined for an impossible pid", () => {
    for (const pid of [0, -1, 0.5, 2 ** 31, Number.NaN]) assert.equal(identityOf(pid), undefined);
  });
});

describe("parseStart", () => {
  const after = (state: string) =>
    `${state} 1 1 1 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 7 0 987654 1000 200 18446744073709551615`;

  for (const name of [
    "node",
    "a b",
    "a) R 1",
    "((",
    ")",
    ") Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19",
  ]) {
    it(`reads past the name ${JSON.stringify(name)}`, () => {
      for (const state of ["S", "Z"]) {
        const start = { startTicks: 987654, isZombie: state === "Z" };
        assert.deepEqual(parseStart(`42 (${name}) ${after(state)}\n`), start);
      }
    });
  }

  it("refuses an invalid line", () => {
    for (const text of [
      "",
      "42",
      "42 (node) S 1 1",
      `42 (node) ${after("S").replace("987654", "x")}`,
    ]) {
      assert.throws(
        () => parseStart(text),
        (error) => hasCode(error, "UNSUPPORTED"),
      );
    }
  });
});
