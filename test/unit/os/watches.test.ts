import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { constants } from "node:os";
import { describe, it } from "node:test";
import { interceptLibc } from "../../../src/ffi/intercept-libc.js";
import { FdWatch } from "../../../src/os/fd-watch.js";
import { openPidfd, ProcessWatch } from "../../../src/os/process-watch.js";
import { SeqpacketSocket } from "../../../src/os/seqpacket.js";
import { checkLeaks, collect } from "../../support/leak-check.js";
import { soon, until } from "../../support/until.js";

/** Long enough for a wrong call: each turn polls the descriptors once. */
async function turns(): Promise<void> {
  for (let i = 0; i < 20; i += 1) await new Promise((resolve) => setImmediate(resolve));
}

describe("FdWatch", () => {
  checkLeaks();

  it("calls again while something is unread", async () => {
    const [one, other] = SeqpacketSocket.pair();
    let calls = 0;
    const watch = new FdWatch(one.fd, () => {
      calls += 1;
    });
    await turns();
    assert.equal(calls, 0);
    other.trySend(Buffer.from("x"));
    await until("it was called more than once", () => calls > 1);
    watch.close();
    one.close();
    other.close();
  });

  it("makes no calls while it is paused, and calls again after resume()", async () => {
    const [one, other] = SeqpacketSocket.pair();
    let calls = 0;
    let pausedIn: (() => void) | undefined;
    const watch = new FdWatch(one.fd, () => {
      calls += 1;
      pausedIn?.();
    });
    other.trySend(Buffer.from("x"));
    await until("it was called", () => calls > 0);
    watch.pause();
    const before = calls;
    watch.setWritable(true);
    watch.setWritable(false);
    await turns();
    assert.equal(calls, before);
    pausedIn = () => watch.pause();
    watch.resume();
    await until("it was called again", () => calls > before);
    await turns();
    assert.equal(calls, before + 1);
    watch.close();
    one.close();
    other.close();
  });

  it("ignores readability and a hang-up if only writability is wanted", async () => {
    const [one, other] = SeqpacketSocket.pair();
    let calls = 0;
    const watch = new FdWatch(one.fd, () => {
      calls += 1;
    });
    watch.setReadable(false);
    other.trySend(Buffer.from("x"));
    other.close();
    await turns();
    assert.equal(calls, 0);
    watch.setWritable(true);
    await until("it was called", () => calls > 0);
    watch.setWritable(false);
    const before = calls;
    await turns();
    assert.equal(calls, before);
    watch.setReadable(true);
    await until("it was called again", () => calls > before);
    watch.close();
    one.close();
  });

  it("makes no call for an event of the turn in which it was paused", async () => {
    const pairs = [SeqpacketSocket.pair(), SeqpacketSocket.pair()] as const;
    let calls = 0;
    const watches: FdWatch[] = pairs.map(
      ([one]) =>
        new FdWatch(one.fd, () => {
          calls += 1;
          for (const watch of watches) watch.pause();
        }),
    );
    for (const [, other] of pairs) other.trySend(Buffer.from("x"));
    await until("one was called", () => calls > 0);
    await turns();
    assert.equal(calls, 1);
    for (const watch of watches) watch.close();
    for (const socket of pairs.flat()) socket.close();
  });

  it("calls for writability only if it is wanted", async () => {
    const [one, other] = SeqpacketSocket.pair();
    let calls = 0;
    const watch = new FdWatch(one.fd, () => {
      calls += 1;
    });
    await turns();
    assert.equal(calls, 0);
    watch.setWritable(true);
    await until("it was called", () => calls > 0);
    watch.setWritable(false);
    await turns();
    const before = calls;
    await turns();
    assert.equal(calls, before);
    watch.close();
    one.close();
    other.close();
  });

  it("keeps its descriptor open even if nobody else holds it", async () => {
    let calls = 0;
    const { watch, fd, other } = (() => {
      const [one, other] = SeqpacketSocket.pair();
      const fd = new WeakRef(one.fd);
      const watch = new FdWatch(one.fd, () => {
        calls += 1;
        watch.pause();
      });
      return { watch, fd, other };
    })();
    await turns();
    collect();
    await turns();
    assert.equal(fd.deref()?.closed, false);
    other.trySend(Buffer.from("x"));
    await until("it was called", () => calls > 0);
    watch.close();
    fd.deref()?.close();
    other.close();
  });

  it("calls all awaited watches that are ready in one turn, and their promises continue", async () => {
    const pairs = [SeqpacketSocket.pair(), SeqpacketSocket.pair(), SeqpacketSocket.pair()] as const;
    const calls = pairs.map(() => 0);
    const watches = pairs.map(
      ([one], index) =>
        new FdWatch(one.fd, async () => {
          one.tryReceive();
          await undefined;
          calls[index] = (calls[index] ?? 0) + 1;
        }),
    );
    for (const watch of watches.slice(0, 2)) watch.setAwaited(true);
    for (let round = 1; round <= 3; round += 1) {
      for (const [, other] of pairs) other.trySend(Buffer.from("x"));
      await until("all were called", () => calls.every((count) => count === round));
      await turns();
      assert.deepEqual(calls, [round, round, round]);
    }
    watches[0]?.close();
    watches[1]?.setAwaited(false);
    pairs[2][1].trySend(Buffer.from("x"));
    await until("the watch that nobody awaits was called", () => calls[2] === 4);
    for (const watch of watches) watch.close();
    for (const socket of pairs.flat()) socket.close();
  });

  it("calls back without anybody's AsyncLocalStorage", async () => {
    const request = new AsyncLocalStorage<string>();
    const pairs = [SeqpacketSocket.pair(), SeqpacketSocket.pair()] as const;
    const stores: (string | undefined)[] = [];
    const [awaited, other] = pairs.map(
      ([one]) =>
        new FdWatch(one.fd, () => {
          one.tryReceive();
          stores.push(request.getStore());
        }),
    );
    await turns();
    request.run("the one that awaits", () => awaited?.setAwaited(true));
    for (let count = 1; count <= 2; count += 1) {
      pairs[1][1].trySend(Buffer.from("x"));
      await until("it was called", () => stores.length === count);
    }
    assert.deepEqual(stores, [undefined, undefined]);
    for (const watch of [awaited, other]) watch?.close();
    for (const socket of pairs.flat()) socket.close();
  });

  it("calls even while the global timers are mocked", async () => {
    const [one, other] = SeqpacketSocket.pair();
    let calls = 0;
    const watch = new FdWatch(one.fd, () => {
      one.tryReceive();
      calls += 1;
    });
    const { setImmediate: before } = globalThis;
    await turns();
    globalThis.setImmediate = (() => ({ unref() {} })) as unknown as typeof before;
    watch.setAwaited(true);
    globalThis.setImmediate = before;
    for (let count = 1; count <= 2; count += 1) {
      other.trySend(Buffer.from("x"));
      await until("it was called", () => calls === count);
    }
    watch.close();
    for (const socket of [one, other]) socket.close();
  });

  it("never calls after close(), even if a callback closes it", async () => {
    const [one, other] = SeqpacketSocket.pair();
    let calls = 0;
    const watch: FdWatch = new FdWatch(one.fd, () => {
      calls += 1;
      watch.close();
    });
    other.trySend(Buffer.from("x"));
    await until("it was called", () => calls > 0);
    watch.resume();
    watch.setWritable(true);
    watch.setReferenced(false);
    await turns();
    assert.equal(calls, 1);
    watch.close();
    one.close();
    other.close();
  });
});

describe("ProcessWatch", () => {
  checkLeaks();

  function sleeper() {
    return spawn("sleep", ["1000"], { stdio: "ignore" });
  }

  it("reports once that a process was killed", async () => {
    const child = sleeper();
    const pidfd = openPidfd(child.pid ?? 0);
    assert.ok(pidfd !== undefined);
    let calls = 0;
    let told: () => void = () => {};
    const exit = new Promise<void>((resolve) => {
      told = resolve;
    });
    const watch = new ProcessWatch(pidfd, () => {
      calls += 1;
      told();
    });
    const closed = once(child, "close");
    assert.equal(watch.exited, false);
    child.kill("SIGKILL");
    // The watch does not keep this process alive, so a timer does.
    await soon("the exit is reported", exit);
    assert.equal(watch.exited, true);
    assert.ok(pidfd.closed);
    await closed;
    await turns();
    assert.equal(calls, 1);
  });

  it("makes no calls after close()", async () => {
    const child = sleeper();
    const pidfd = openPidfd(child.pid ?? 0);
    assert.ok(pidfd !== undefined);
    let calls = 0;
    const watch = new ProcessWatch(pidfd, () => {
      calls += 1;
    });
    watch.close();
    watch.close();
    const closed = once(child, "close");
    child.kill("SIGKILL");
    await closed;
    await turns();
    assert.equal(calls, 0);
  });

  it("reports the end even if the watch cannot be released, and warns", async () => {
    const child = sleeper();
    const pidfd = openPidfd(child.pid ?? 0);
    assert.ok(pidfd !== undefined);
    const { number } = pidfd;
    const undo = interceptLibc((call, [fd]) =>
      call === "close" && fd === number ? constants.errno.EIO : undefined,
    );
    try {
      const warned = new Promise<string>((resolve) => {
        process.once("warning", ({ name }) => resolve(name));
      });
      const exit = new Promise<void>((resolve) => {
        new ProcessWatch(pidfd, resolve);
      });
      const closed = once(child, "close");
      child.kill("SIGKILL");
      await soon("the exit is reported", exit);
      assert.equal(await soon("there is a warning", warned), "CudaIpcRelease");
      await closed;
    } finally {
      undo();
    }
  });

  it("returns undefined for a process that does not exist", async () => {
    const child = sleeper();
    const closed = once(child, "close");
    child.kill("SIGKILL");
    await closed;
    assert.equal(openPidfd(child.pid ?? 0), undefined);
    assert.equal(openPidfd(-5), undefined);
  });
});
