import assert from "node:assert/strict";
import { existsSync, openSync } from "node:fs";
import { constants } from "node:os";
import { describe, it } from "node:test";
import { limits } from "../../../src/base/limits.js";
import { interceptLibc } from "../../../src/ffi/intercept-libc.js";
import { libc } from "../../../src/ffi/libc.js";
import { createBell } from "../../../src/os/bell.js";
import {
  closeFds,
  closeForeign,
  closeMemory,
  closesAtOnce,
  isDeviceMemory,
  kindOf,
} from "../../../src/os/foreign-fd.js";
import { createMemoryFile } from "../../../src/os/memory-file.js";
import { OwnedFd } from "../../../src/os/owned-fd.js";
import { openPidfd } from "../../../src/os/process-watch.js";
import { checkLeaks } from "../../support/leak-check.js";
import { OddFds } from "../../support/odd-fds.js";
import { isOpen, linkOf } from "../../support/open-files.js";
import { until } from "../../support/until.js";
import { LingeringSockets } from "../../support/waiting-fds.js";

const O_PATH = 0o10000000;
const MiB = 2 ** 20;

/** Resolves in the next turn of the event loop, after what `setImmediate` had planned before. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

describe("kindOf", () => {
  checkLeaks();

  it("finds the kind of a descriptor, and whether it can be closed at once", () => {
    using odd = new OddFds();
    using bell = createBell();
    using pidfd = openPidfd(process.pid);
    assert.ok(pidfd !== undefined);
    const kinds = new Set([...odd.all, bell, pidfd].map(kindOf));
    for (const kind of [
      "socket",
      "FIFO",
      "folder",
      "device file",
      "regular file",
      "memory file",
      "bell",
    ] as const) {
      assert.ok(kinds.has(kind), kind);
    }
    assert.equal(kindOf(pidfd), "anonymous file");
    const atOnce = [...kinds].filter(closesAtOnce).sort();
    assert.deepEqual(atOnce, ["bell", "memory file"]);
  });

  it("does not take an eventfd opened with O_PATH for a bell", () => {
    using bell = createBell();
    using path = new OwnedFd(openSync(`/proc/self/fd/${bell.number}`, O_PATH));
    assert.deepEqual([kindOf(bell), kindOf(path)], ["bell", "anonymous file"]);
  });

  it("takes memory files for GPU memory, and nothing else", () => {
    using odd = new OddFds();
    using memory = createMemoryFile("test", 4096);
    assert.ok(isDeviceMemory(memory));
    assert.ok(odd.all.every((fd) => isDeviceMemory(fd) === (kindOf(fd) === "memory file")));
  });
});

describe("closeMemory", () => {
  checkLeaks();

  it("frees large memory on the thread pool, and closes the rest at once", async (t) => {
    const { mock } = t.mock.method(libc().close, "async");
    const small = createMemoryFile("test", 4096);
    const bell = createBell();
    for (const fd of [small, bell]) closeMemory(fd);
    assert.equal(mock.callCount(), 0);
    const large = createMemoryFile("test", 64 * 1024 * 1024);
    const { number } = large;
    closeMemory(large);
    assert.equal(mock.callCount(), 1);
    await until("it is closed", () => !existsSync(`/proc/self/fd/${number}`));
    const behindItsEnd = new OwnedFd(libc().memfd_create("test", 1));
    assert.equal(libc().fallocate(behindItsEnd.number, 1, 0, 64 * 2 ** 20), 0);
    closeMemory(behindItsEnd);
    await until("it is closed on the pool, after the other", () => mock.callCount() === 2);
    assert.ok([small, bell, large].every(({ closed }) => closed));
  });

  it("frees 16 MiB in a turn of the event loop, however many files it closes", async (t) => {
    await nextTurn();
    const { mock } = t.mock.method(libc().close, "async");
    const many = Array.from({ length: 40 }, (_, index) => createMemoryFile(`many ${index}`, MiB));
    const links = many.map(linkOf);
    const twins = many.map((fd) => fd.duplicate());
    for (const fd of [...many, ...twins]) closeMemory(fd);
    assert.ok(
      [...many, ...twins].every(({ closed }) => closed),
      "for their owners they are closed",
    );
    assert.deepEqual(
      links.map(isOpen),
      links.map((_, index) => index >= 16),
      "a file of which another descriptor was closed in this turn counts once",
    );
    await until("the rest is closed on the pool", () => !links.some(isOpen));
    // The first, and all others at once; or all at once, after a close that was still under way.
    assert.ok(mock.callCount() <= 2, `${mock.callCount()} calls`);
    await nextTurn();
    const next = createMemoryFile("next", 16 * MiB);
    const link = linkOf(next);
    closeMemory(next);
    assert.ok(!isOpen(link), "the next turn frees as much");
  });
});

describe("closeMemory of many descriptors", () => {
  checkLeaks();

  it("gives their numbers back with a few calls on the thread pool", async (t) => {
    using large = createMemoryFile("large", 64 * MiB);
    const link = linkOf(large);
    const many = Array.from({ length: 600 }, () => large.duplicate());
    const { mock } = t.mock.method(libc().close, "async");
    for (const fd of many) closeMemory(fd);
    large.close();
    await until("all are closed", () => !isOpen(link));
    const most = 1 + Math.ceil(599 / limits.scmRightsFdsMax);
    assert.ok(mock.callCount() <= most, `${mock.callCount()} calls, wanted at most ${most}`);
  });

  for (const call of ["socketpair", "sendmsg"] as const) {
    it(`closes one after the other if ${call} fails`, async () => {
      const many = Array.from({ length: 4 }, () => createMemoryFile("large", 64 * MiB));
      const links = many.map(linkOf);
      const undo = interceptLibc((name) => (name === call ? constants.errno.EMFILE : undefined));
      try {
        for (const fd of many) closeMemory(fd);
        await until("all are closed", () => !links.some(isOpen));
      } finally {
        undo();
      }
    });
  }
});

describe("closeForeign", () => {
  it("does not wait for a socket whose close waits for its peer", { timeout: 60_000 }, async () => {
    using lingering = await LingeringSockets.open();
    const both = [lingering.make(), lingering.make()];
    const [first = "", second = ""] = both.map(linkOf);
    for (const fd of both) closeForeign(fd);
    // The first close waits on the thread pool, and the second waits for the first.
    await until("the first is being closed", () => !isOpen(first));
    assert.ok(isOpen(second));
    lingering[Symbol.dispose]();
    await until("the second is closed too", () => !isOpen(second));
  });

  it("is the end of it for each owner, who may close it once more", async () => {
    using lingering = await LingeringSockets.open();
    const both = [lingering.make(), lingering.make()];
    const links = both.map(linkOf);
    for (const fd of both) closeForeign(fd);
    for (const fd of both) fd.close();
    closeFds(both);
    assert.ok(both.every(({ closed }) => closed));
    lingering[Symbol.dispose]();
    await until("both are closed", () => !links.some(isOpen));
  });
});
