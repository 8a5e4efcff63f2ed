import assert from "node:assert/strict";
import { constants } from "node:os";
import { describe, it } from "node:test";
import { interceptLibc } from "../../../../src/ffi/intercept-libc.js";
import { FdStore } from "../../../../src/hub/restart/fd-store.js";
import { createMemoryFile } from "../../../../src/os/memory-file.js";
import type { OwnedFd } from "../../../../src/os/owned-fd.js";
import { SeqpacketSocket } from "../../../../src/os/seqpacket.js";
import { ServiceManager } from "../../../../src/os/service-manager.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { until } from "../../../support/until.js";

/** A manager that records what it is told. It takes everything, or nothing while it is busy. */
class Told {
  readonly words: string[] = [];
  readonly socket = undefined;
  latest: OwnedFd | undefined;
  busy = false;
  store(name: string, [fd]: readonly OwnedFd[]): boolean {
    if (this.busy) return false;
    this.words.push(`store ${name}`);
    this.latest = fd;
    return true;
  }
  remove(name: string): boolean {
    if (this.busy) return false;
    this.words.push(`remove ${name}`);
    return true;
  }
}

class Rig {
  readonly told = new Told();
  readonly lines: string[] = [];
  readonly settled: string[] = [];
  failures = 0;
  readonly store = new FdStore({
    log: (_event, message) => void this.lines.push(message),
    onSettled: (key) => this.settled.push(key),
    onProgress: () => {},
    onFailure: () => {
      this.failures += 1;
    },
  });
}

describe("FdStore", () => {
  checkLeaks();

  it("logs and skips an object that it cannot reopen", () => {
    const { told, lines, store } = new Rig();
    store.begin(told);
    using memory = createMemoryFile("test", 4096);
    using twin = memory.duplicate();
    store.store("o1", [memory]);
    const giveBack = interceptLibc((call) =>
      call === "open" ? constants.errno.EMFILE : undefined,
    );
    try {
      store.store("o2", [twin]);
    } finally {
      giveBack();
    }
    assert.match(lines.join("\n"), /^o2 is not kept for the next hub: TOO_MANY_FDS: /);
    assert.equal(store.has("o2"), false);
    store.store("o3", [twin]);
    assert.notEqual(told.latest, twin);
    store.remove("o1");
    store.remove("o2");
    store.remove("o3");
    assert.deepEqual(told.words, ["store o1", "store o3", "remove o1", "remove o3"]);
    store.store("o4", [twin]);
    assert.equal(told.latest, twin, "no other object has the file any more");
    store.close();
  });

  it("reports when the manager has everything, and drops words of ended things", async () => {
    const { told, store, settled } = new Rig();
    using memory = createMemoryFile("test", 4096);
    using other = createMemoryFile("other", 4096);
    store.begin(told);
    told.busy = true;
    store.store("o1", [memory, other]);
    store.store("o2", [memory]);
    assert.deepEqual([store.has("o1"), store.count, store.pending], [false, 0, 3]);
    store.remove("o2");
    told.busy = false;
    await until("o1 is settled", () => settled.includes("o1"));
    assert.deepEqual([store.has("o1"), store.count, store.pending], [true, 2, 0]);
    assert.deepEqual(told.words, ["store o1", "store o1.1"]);
    assert.ok(settled.includes("o2"), "an ended object is settled too");
    store.close();
  });

  it("tells the next manager everything, and a gone one nothing", () => {
    const { told, store } = new Rig();
    using memory = createMemoryFile("test", 4096);
    using other = createMemoryFile("other", 4096);
    store.begin(told);
    store.store("o1", [memory]);
    store.manageless();
    assert.deepEqual([store.has("o1"), store.count], [false, 0]);
    store.store("o2", [other]);
    store.remove("o1");
    const next = new Told();
    store.begin(next);
    assert.deepEqual(next.words, ["store o2"]);
    assert.deepEqual(told.words, ["store o1"]);
    store.close();
  });

  it("stores the rest if a client's process has ended and its leases are still being released", () => {
    const { told, lines, store } = new Rig();
    const pidfd = createMemoryFile("a pidfd", 4096);
    using memory = createMemoryFile("test", 4096);
    store.begin(told);
    store.store("p1", [pidfd]);
    store.store("o1", [memory]);
    pidfd.close();
    store.manageless();
    const next = new Told();
    store.begin(next);
    store.remove("p1");
    assert.deepEqual([next.words, store.has("o1"), lines], [["store o1"], true, []]);
    store.close();
  });

  it("calls onFailure if a manager cannot be told, and tells the next one everything", () => {
    const rig = new Rig();
    const { told, store } = rig;
    using memory = createMemoryFile("test", 4096);
    using other = createMemoryFile("other", 4096);
    store.begin(told);
    store.store("o1", [memory]);
    told.store = () => {
      throw new Error("broken");
    };
    store.store("o2", [other]);
    assert.deepEqual([rig.failures, store.count, rig.lines.length], [1, 0, 1]);
    const next = new Told();
    store.begin(next);
    assert.deepEqual([next.words, rig.failures], [["store o1", "store o2"], 1]);
    store.close();
  });

  it("stores nothing twice that the manager has from an earlier hub, and removes the rest", () => {
    const { told, store } = new Rig();
    using memory = createMemoryFile("test", 4096);
    using other = createMemoryFile("other", 4096);
    store.inherit("o1", [memory]);
    store.inherit("o2", [other]);
    store.store("o1", [memory]);
    store.dropInherited();
    store.begin(told);
    assert.deepEqual(told.words, ["remove o2"]);
    assert.deepEqual([store.has("o1"), store.count], [true, 1]);
    store.close();
  });

  it("waits for room in the manager's socket, and tells the rest in order", async () => {
    const { store } = new Rig();
    const [near, reader] = SeqpacketSocket.pair();
    using memory = createMemoryFile("test", 4096);
    store.begin(ServiceManager.over(near.fd));
    const count = 2000;
    for (let id = 1; id <= count; id += 1) store.store(`p${id}`, [memory]);
    assert.ok(store.pending > 0, "a socket takes only so many");
    const names: string[] = [];
    await until("all came", () => {
      for (
        let packet = reader.tryReceive();
        packet !== undefined && packet !== "end";
        packet = reader.tryReceive()
      ) {
        names.push(/FDNAME=(.*)/.exec(Buffer.from(packet.bytes).toString())?.[1] ?? "");
        for (const fd of packet.fds) fd.close();
      }
      return names.length === count;
    });
    assert.deepEqual(
      names,
      Array.from({ length: count }, (_, index) => `p${index + 1}`),
    );
    assert.equal(store.count, count);
    store.close();
    near.close();
    reader.close();
  });
});
