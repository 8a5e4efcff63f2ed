/** WHY a file of its own: a thread that has AIO keeps it. */
import assert from "node:assert/strict";
import { readSync, writeSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { libc } from "../../../src/ffi/libc.js";
import { createBell, ringBell } from "../../../src/os/bell.js";
import { prepareBellSignals } from "../../../src/os/bell-signal.js";
import { interrupted } from "../../../src/os/interrupted-call.js";
import { errnos } from "../../../src/os/system-error.js";
import { refuseAio } from "../../support/without-aio.js";

const F_SETFL = 4;
const FULL = new Uint8Array(BigUint64Array.of(2n ** 64n - 2n).buffer);

describe("a bell without AIO", () => {
  let hostile: (call: string) => void = () => {};
  let allow: () => void;
  before(() => {
    allow = refuseAio((call) => hostile(call));
  });
  after(() => allow());

  it("wakes", () => {
    assert.equal(prepareBellSignals(), errnos.EAGAIN);
    using bell = createBell();
    ringBell(bell);
    ringBell(bell);
    const count = new BigUint64Array(1);
    readSync(bell.number, new Uint8Array(count.buffer));
    assert.equal(count[0], 2n);
  });

  it("never waits if another holder fills it and makes it block right before the write", () => {
    using bell = createBell();
    const { fcntl } = libc();
    let attacks = 0;
    hostile = (call) => {
      if (call !== "eventfd_write") return;
      hostile = () => {};
      attacks += 1;
      writeSync(bell.number, FULL);
      fcntl(bell.number, F_SETFL, 0);
    };
    ringBell(bell);
    assert.equal(attacks, 1);
  });

  it("is tried again later", () => {
    using bell = createBell();
    allow();
    for (let ring = 0; ring <= 64; ring += 1) ringBell(bell);
    let writes = 0;
    allow = refuseAio((call) => {
      if (call === "eventfd_write") writes += 1;
    });
    ringBell(bell);
    assert.equal(writes, 0);
    assert.equal(prepareBellSignals(), undefined);
  });
});

describe("interrupted", () => {
  it("ends a write that waits", () => {
    using bell = createBell();
    writeSync(bell.number, FULL);
    libc().fcntl(bell.number, F_SETFL, 0);
    const made = interrupted(() => libc().eventfd_write(bell.number, 1));
    assert.equal(made, -1);
  });

  it("leaves no timer behind", () => {
    assert.equal(
      interrupted(() => 5),
      5,
    );
    const waits = libc().poll(new Uint8Array(8), 0, 20);
    assert.equal(waits, 0, "a signal ended the wait");
  });

  it("ends the timer also if the call throws", () => {
    assert.throws(() =>
      interrupted(() => {
        throw new RangeError("made");
      }),
    );
    assert.equal(libc().poll(new Uint8Array(8), 0, 20), 0);
  });
});
