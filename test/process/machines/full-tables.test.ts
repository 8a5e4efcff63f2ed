/** A bridge that may open no more files, and one whose disks are full. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { TestMachine } from "../../support/machines/test-machine.js";
import { TestNats } from "../../support/machines/test-nats.js";
import { skipUnlessRoot } from "../../support/other-user.js";
import { SmallDisk } from "../../support/small-disk.js";
import { TestFolder } from "../../support/test-folder.js";
import { soon } from "../../support/until.js";
import { isEnd, NO_ROOM_CODES, WAIT_MS, type Work, WorksRig, works } from "./works-rig.js";

const FDS_MAX = 4096;
/** Descriptors that the bridge may open beyond those that it has. */
const isNightly = process.env.NIGHTLY === "1";
const ROOM = isNightly ? [0, 1, 2, 3, 4, 6, 8, 12, 16, 24] : [2];

describe("a bridge with a full table of open files", { skip: skipWithoutEngines }, () => {
  let rig: WorksRig;

  before(async () => {
    rig = await WorksRig.start();
  });
  after(() => rig?.[Symbol.asyncDispose]());

  for (const side of ["one", "other"] as const)
    for (const [what, work] of Object.entries(works)) {
      it(`of machine "${side}" fails ${what}, or does it, and goes on`, async (t) => {
        const machine = rig.site[side];
        const { bridgePid } = machine;
        for (const room of ROOM) {
          await endLink(side === "one" ? rig.site.other : rig.site.one);
          const where = `room for ${room} descriptors`;
          limitFds(machine, limitWithRoom(machine, room));
          try {
            t.diagnostic(`${where}: ${await outcomeOf(work, where)}`);
          } finally {
            limitFds(machine, undefined);
          }
          // A wait that began before may still be told of it.
          await rig.worksAgain(work, where, NO_ROOM_CODES);
          assert.equal(machine.bridgePid, bridgePid);
          assert.ok(process.kill(bridgePid, 0), "the bridge is there");
        }
      });
    }

  /** By the next bridge of a machine. WHY: a link that is there needs few descriptors. */
  async function endLink(machine: TestMachine): Promise<void> {
    await machine.killBridge();
    machine.startBridge();
    await machine.bridged();
  }

  async function outcomeOf(work: Work, where: string): Promise<string> {
    const working = Promise.allSettled([work(rig.site)]);
    const [outcome] = await soon(`the work ends with ${where}`, working, 4 * WAIT_MS);
    if (outcome.status === "fulfilled") return "done";
    const { reason } = outcome;
    const code = (reason as { readonly code?: string }).code ?? "";
    assert.ok(isEnd(reason) || NO_ROOM_CODES.includes(code), `${where}: ${reason}`);
    return String(reason);
  }
});

describe("a bridge whose disks are full", { skip: skipWithoutEngines || skipUnlessRoot }, () => {
  it("goes on without its log, and so does the next one", async (t) => {
    using disk = new SmallDisk("1m");
    if (disk.skip !== false) return t.skip(disk.skip);
    const hub = { folder: new TestFolder(disk.folder.path) };
    await using rig = await WorksRig.start({ hub, logTo: "/dev/full" });
    const { hubOfOther, other } = rig.site;
    disk.fill();
    for (const isNext of [false, true]) {
      if (isNext) {
        await other.killBridge();
        other.startBridge();
        await other.bridged();
      }
      const opening = hubOfOther.open("array", { from: "any", timeoutMs: 60_000 });
      const [outcome] = await Promise.allSettled([opening]);
      // The hub may have no room to note the copy.
      if (outcome.status === "rejected")
        assert.ok(hasCode(outcome.reason, "DISK_FULL"), String(outcome.reason));
      else outcome.value.close();
      await rig.isClean("a copy on a full disk");
    }
    disk.clear();
    for (const work of Object.values(works)) await rig.worksAgain(work, "a full disk");
    other.signalBridge("SIGTERM");
    assert.equal(await other.bridgeEnded(), 0);
  });

  it("does not start if its socket has no room, says why, and leaves nothing", async (t) => {
    using disk = new SmallDisk("1m", 40);
    if (disk.skip !== false) return t.skip(disk.skip);
    await using nats = await TestNats.start();
    const hub = { folder: new TestFolder(disk.folder.path) };
    await using machine = await TestMachine.start("one", nats, { hub });
    machine.signalBridge("SIGTERM");
    assert.equal(await machine.bridgeEnded(), 0);
    const files = () => readdirSync(machine.hub.folder.path).filter((it) => /bridge/.test(it));
    for (const name of files()) rmSync(machine.hub.folder.file(name));
    disk.fillWithFiles();
    const where = ["--nats", nats.url, "--socket", machine.hub.socket];
    const { code, error } = await machine.run("bridge", "--machine", "one", ...where);
    assert.equal(code, 1);
    assert.match(error, /^error\[DISK_FULL\]: .*\n {2}hint: /);
    assert.deepEqual(files(), []);
    disk.clear();
    machine.startBridge();
    await machine.bridged();
  });
});

/** The limit of descriptors with which the bridge may open so many more. */
function limitWithRoom({ bridgePid }: TestMachine, room: number): number {
  const open = new Set(readdirSync(`/proc/${bridgePid}/fd`).map(Number));
  let free = 0;
  for (let limit = 0; ; limit += 1) {
    if (open.has(limit)) continue;
    if (free === room) return limit;
    free += 1;
  }
}

/** @param fds as many as may be open; undefined for as many as the bridge needs */
function limitFds(machine: TestMachine, fds: number | undefined): void {
  const words = ["--pid", String(machine.bridgePid), `--nofile=${fds ?? FDS_MAX}:`];
  const { status, stderr } = spawnSync("prlimit", words, { encoding: "utf8" });
  assert.equal(status, 0, stderr);
}
