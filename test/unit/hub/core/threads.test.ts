import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { ThreadWatch } from "../../../../src/hub/connections/thread-watch.js";
import { replay } from "../../../../src/hub/restart/hub-records.js";
import { CoreRig, peerOf } from "../../../support/core-rig.js";
import { hostArray } from "../../../support/messages.js";

const THREAD = { tid: 77, startTicks: 5000 };
const OTHER = { tid: 78, startTicks: 5001 };
const CLIENT = { version: "1", program: "test" };

describe("the session of a worker thread", () => {
  let rig: CoreRig;
  const peer = peerOf(9);
  beforeEach(() => {
    rig = new CoreRig();
  });

  /** A connection of a thread of the one process. */
  function greet(id: number, thread = THREAD, session?: number): Record<string, unknown> {
    rig.core.connected(id, peer);
    return rig.result(id, "hello", {
      client: CLIENT,
      thread,
      ...(session && { resume: { session } }),
    });
  }

  function create(id: number, name: string): void {
    rig.result(id, "create", { name, lifetime: "held", descriptor: hostArray }, [rig.fd()]);
  }

  it("ends with its thread although other threads go on", () => {
    greet(1);
    greet(2, OTHER);
    create(1, "one");
    create(2, "two");
    assert.deepEqual(rig.threads, [
      { connection: 1, thread: THREAD },
      { connection: 2, thread: OTHER },
    ]);
    rig.core.hungUp(1);
    assert.equal(rig.core.objectCount, 2);
    rig.core.processEnded(1);
    assert.equal(rig.core.objectCount, 1);
    rig.result(2, "inspect", { name: "two" });
  });

  it("is resumed by the same thread, which is then watched on the new connection", () => {
    const { session } = greet(1);
    create(1, "one");
    rig.core.hungUp(1);
    assert.equal(greet(2, THREAD, session as number).resumed, true);
    assert.deepEqual(rig.threads.at(-1), { connection: 2, thread: THREAD });
  });

  it("is not resumed by another thread of its process", () => {
    const { session } = greet(1);
    create(1, "one");
    rig.core.hungUp(1);
    assert.equal(greet(2, OTHER, session as number).resumed, false);
    assert.equal(rig.resumed(3, session as number, peer).resumed, false);
  });

  it("is not resumed by the main thread", () => {
    rig.greeted(1, "test", peer);
    create(1, "one");
    assert.deepEqual(rig.threads, []);
  });

  for (const isSeen of [true, false]) {
    it(`is in the records with its thread, ${isSeen ? "" : "not "}seen`, () => {
      rig.seesThreads = isSeen;
      greet(1);
      create(1, "one");
      const [session] = replay(rig.records).sessions.values();
      assert.deepEqual(session?.thread, { ...THREAD, isSeen });
    });
  }
});

describe("ThreadWatch", () => {
  it("gives up an unseen thread only some time after its hang-up", (test) => {
    test.mock.timers.enable({ apis: ["setTimeout"] });
    let gone = 0;
    const watch = new ThreadWatch(process.pid, THREAD, false, () => {
      gone += 1;
    });
    assert.equal(watch.isSeen, false);
    test.mock.timers.tick(1_000_000);
    assert.equal(gone, 0);
    watch.hungUp();
    test.mock.timers.tick(29_999);
    assert.equal(gone, 0);
    test.mock.timers.tick(1);
    assert.equal(gone, 1);
  });

  it("gives up at once a thread that an earlier hub saw and that has ended", (test) => {
    test.mock.timers.enable({ apis: ["setTimeout"] });
    let gone = 0;
    const watch = new ThreadWatch(process.pid, THREAD, true, () => {
      gone += 1;
    });
    watch.hungUp();
    test.mock.timers.tick(1);
    assert.equal(gone, 1);
  });

  it("calls nothing after close()", (test) => {
    test.mock.timers.enable({ apis: ["setTimeout"] });
    const watch = new ThreadWatch(process.pid, THREAD, true, () => assert.fail("it was closed"));
    watch.hungUp();
    watch.close();
    test.mock.timers.tick(1_000_000);
  });
});
