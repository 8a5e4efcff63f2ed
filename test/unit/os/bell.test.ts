import assert from "node:assert/strict";
import { openSync, writeSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { interceptLibc } from "../../../src/ffi/intercept-libc.js";
import { libc } from "../../../src/ffi/libc.js";
import { createBell, isBell, ringBell, silenceBell } from "../../../src/os/bell.js";
import { FdWatch } from "../../../src/os/fd-watch.js";
import { OwnedFd } from "../../../src/os/owned-fd.js";
import { until } from "../../support/until.js";

const F_SETFL = 4;

describe("a bell", () => {
  it("is heard once after several rings", async () => {
    const bell = createBell();
    let heard = 0;
    await new Promise<void>((resolve) => {
      const watch = new FdWatch(bell, () => {
        heard += 1;
        silenceBell(bell);
        watch.close();
        resolve();
      });
      ringBell(bell);
      ringBell(bell);
    });
    assert.equal(heard, 1);
    silenceBell(bell);
    bell.close();
  });

  it("does not wait if its counter is full", () => {
    const bell = createBell();
    writeSync(bell.number, new Uint8Array(BigUint64Array.of(2n ** 64n - 2n).buffer));
    ringBell(bell);
    bell.close();
  });

  it("does not wait if another holder has cleared O_NONBLOCK", () => {
    const bell = createBell();
    libc().fcntl(bell.number, F_SETFL, 0);
    writeSync(bell.number, new Uint8Array(BigUint64Array.of(2n ** 64n - 2n).buffer));
    ringBell(bell);
    silenceBell(bell);
    libc().fcntl(bell.number, F_SETFL, 0);
    silenceBell(bell);
    bell.close();
    assert.throws(
      () => ringBell(bell),
      (error) => hasCode(error, "CLOSED"),
    );
  });

  it("does not wait if another holder clears O_NONBLOCK between any two calls", () => {
    const bell = createBell();
    writeSync(bell.number, new Uint8Array(BigUint64Array.of(2n ** 64n - 2n).buffer));
    const real = libc().fcntl;
    const undo = interceptLibc((call) => {
      // The other holder acts at the worst moment: right before a call that could wait.
      if (call !== "fcntl") real(bell.number, F_SETFL, 0);
      return undefined;
    });
    try {
      for (let ring = 0; ring < 100; ring += 1) ringBell(bell);
      silenceBell(bell);
      silenceBell(bell);
    } finally {
      undo();
      bell.close();
    }
  });

  it("is heard again after a ring with a full counter", async () => {
    const bell = createBell();
    let heard = 0;
    const watch = new FdWatch(bell, () => {
      heard += 1;
      silenceBell(bell);
    });
    for (let round = 1; round <= 3; round += 1) {
      writeSync(bell.number, new Uint8Array(BigUint64Array.of(2n ** 64n - 2n).buffer));
      ringBell(bell);
      await until("it is heard", () => heard === round);
    }
    ringBell(bell);
    await until("it is heard", () => heard === 4);
    watch.close();
    bell.close();
  });

  it("is distinguished from other descriptors", () => {
    const bell = createBell();
    const other = new OwnedFd(openSync("/dev/null", "r"));
    assert.equal(isBell(bell), true);
    assert.equal(isBell(other), false);
    other.close();
    bell.close();
  });
});
