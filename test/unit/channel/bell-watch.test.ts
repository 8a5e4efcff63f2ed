/** ALONE: counts turns of the event loop, to which other tests in its process would add. */
import assert from "node:assert/strict";
import { performance } from "node:perf_hooks";
import { describe, it } from "node:test";
import { Deadline, type WaitOptions } from "../../../src/base/deadline.js";
import { hasCode } from "../../../src/base/errors.js";
import { BellWatch } from "../../../src/channel/bell-watch.js";
import { libc } from "../../../src/ffi/libc.js";
import { createBell, ringBell, silenceBell } from "../../../src/os/bell.js";
import type { OwnedFd } from "../../../src/os/owned-fd.js";
import { checkLeaks } from "../../support/leak-check.js";
import { soon, until } from "../../support/until.js";

const POLLIN = 1;

function deadline(options: WaitOptions = {}): Deadline {
  return new Deadline("hear a bell", options, Number.POSITIVE_INFINITY);
}

/** Whether the bell has rung and was not silenced. */
function rings(bell: OwnedFd): boolean {
  const entry = new DataView(new ArrayBuffer(8));
  entry.setInt32(0, bell.number, true);
  entry.setInt16(4, POLLIN, true);
  return libc().poll(new Uint8Array(entry.buffer), 1, 0) > 0;
}

/** A watch, and a descriptor of the same bell for another holder. */
function open(): { bell: OwnedFd; watch: BellWatch; [Symbol.dispose](): void } {
  const bell = createBell();
  const watch = new BellWatch(bell.duplicate());
  const close = () => {
    watch.close();
    bell.close();
  };
  return { bell, watch, [Symbol.dispose]: close };
}

describe("BellWatch", () => {
  checkLeaks();

  it("resolves when the bell rings or has rung before", async () => {
    using opened = open();
    const { bell, watch } = opened;
    ringBell(bell);
    await soon("the ring before", watch.heard(deadline()));
    await until("it is silent", () => !rings(bell));
    const heard = watch.heard(deadline());
    ringBell(bell);
    await soon("the ring since", heard);
  });

  it("resolves before the bell is silenced, and silences it even if nobody waits again", async () => {
    using opened = open();
    const { bell, watch } = opened;
    const heard = watch.heard(deadline());
    ringBell(bell);
    await soon("the ring", heard);
    assert.equal(rings(bell), true);
    await until("it is silent", () => !rings(bell));
    await assert.rejects(watch.heard(deadline({ timeoutMs: 1 })), (error) =>
      hasCode(error, "TIMEOUT"),
    );
  });

  it("silences the bell at the next wait, which notices rings in between", async () => {
    using opened = open();
    const { bell, watch } = opened;
    const heard = watch.heard(deadline());
    ringBell(bell);
    await soon("the first ring", heard);
    ringBell(bell);
    await soon("the second", watch.heard(deadline()));
    assert.equal(rings(bell), false);
    await assert.rejects(watch.heard(deadline({ timeoutMs: 1 })), (error) =>
      hasCode(error, "TIMEOUT"),
    );
  });

  it("silences a bell that rings for nobody, and hears it when it rings again", async () => {
    using opened = open();
    const { bell, watch } = opened;
    await assert.rejects(watch.heard(deadline({ timeoutMs: 1 })), (error) =>
      hasCode(error, "TIMEOUT"),
    );
    ringBell(bell);
    await until("it is silent", () => !rings(bell));
    const heard = watch.heard(deadline());
    ringBell(bell);
    await soon("the ring", heard);
  });

  it("still hears the bell after another holder has silenced it first", async () => {
    using opened = open();
    const { bell, watch } = opened;
    const heard = watch.heard(deadline());
    ringBell(bell);
    await soon("the ring", heard);
    silenceBell(bell);
    await soon("the earlier ring", watch.heard(deadline()));
    const again = watch.heard(deadline());
    ringBell(bell);
    await soon("the next ring", again);
  });

  it("ends its waits at an abort and at its close", async () => {
    using opened = open();
    const { watch } = opened;
    const abort = new AbortController();
    const aborted = watch.heard(deadline({ signal: abort.signal }));
    abort.abort();
    await assert.rejects(aborted, (error) => hasCode(error, "ABORTED"));
    const heard = watch.heard(deadline());
    watch.close();
    await soon("the close", heard);
  });

  it("lets the event loop sleep during a wait", async () => {
    using opened = open();
    const { bell, watch } = opened;
    const heard = watch.heard(deadline());
    const turns = () => performance.nodeTiming.uvMetricsInfo.loopCount;
    const before = turns();
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.ok(turns() - before < 100, `${turns() - before} turns`);
    ringBell(bell);
    await soon("the ring", heard);
  });
});
