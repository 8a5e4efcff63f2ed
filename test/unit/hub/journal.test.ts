import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs, {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { constants } from "node:os";
import { afterEach, beforeEach, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { hasCode } from "../../../src/base/errors.js";
import { type HubRecord, type HubState, recordsOf, replay, type StoredRecord } from "../../../src/hub/hub-records.js";
import { Journal } from "../../../src/hub/journal.js";
import { interceptFs } from "../../support/intercept-fs.js";
import { checkLeaks } from "../../support/leak-check.js";
import { hostArray } from "../../support/messages.js";
import { TestFolder } from "../../support/test-folder.js";

const APPENDS = fileURLToPath(new URL("./actors/appends-past-limit.js", import.meta.url));
const BOOT = "boot";
const { errno } = constants;

const session: HubRecord = {
  t: "session",
  id: 1,
  pid: 10,
  pidNamespace: 1,
  pidfdInode: null,
  startTicks: 5,
  uid: 0,
  gid: 0,
  groups: [],
  program: "p",
};
const lease: HubRecord = { t: "lease", id: 3, object: 2, session: 1, kind: "owner" };
const object: HubRecord = {
  t: "object",
  id: 2,
  name: "frame",
  lifetime: "held",
  sharing: { with: "private", access: "read" },
  descriptor: hostArray,
  createdAtMs: 1,
  owner: { pid: 10, uid: 0, gid: 0 },
  inodes: ["1:2"],
  writable: true,
};
const all: readonly HubRecord[] = [session, object, lease, { t: "published", object: 2 }];

describe("Journal", () => {
  let folder: TestFolder;
  let path: string;
  let lines: string[];
  const log = (line: string) => lines.push(line);
  beforeEach(() => {
    folder = new TestFolder();
    path = folder.file("journal");
    lines = [];
  });
  afterEach(() => folder[Symbol.dispose]());
  checkLeaks();

  function open(boot = BOOT): Journal {
    return Journal.open(path, boot, log).journal;
  }

  function written(records: readonly HubRecord[] = all): void {
    const journal = open();
    for (const record of records) journal.append([record]);
    journal.close();
  }

  function found(boot = BOOT): HubState {
    const { journal, state } = Journal.open(path, boot, log);
    journal.close();
    return state;
  }

  /** Runs the slices of a rewrite when the test says so. */
  function slices(journal: Journal, snapshot: () => Iterable<StoredRecord>): () => boolean {
    const waiting: (() => void)[] = [];
    journal.keepShort(snapshot, (work) => waiting.push(work));
    return () => {
      const work = waiting.shift();
      work?.();
      return work !== undefined;
    };
  }

  function rewritten(journal: Journal, snapshot: readonly HubRecord[]): void {
    const next = slices(journal, () => snapshot);
    journal.rewrite();
    while (next());
  }

  it("gives back what was appended, and nothing where there is no file", () => {
    assert.deepEqual(found(), replay([]));
    written();
    assert.deepEqual(found(), replay(all));
    assert.equal(statSync(path).mode & 0o777, 0o600);
    assert.deepEqual(lines, []);
  });

  it("leaves out what its writer did not live to finish, after each byte of it, and goes on behind the last whole line", () => {
    written(all.slice(0, 3));
    const whole = readFileSync(path);
    written(all.slice(3));
    const line = readFileSync(path).subarray(whole.byteLength);
    for (let length = 0; length < line.byteLength; length += 1) {
      writeFileSync(path, Buffer.concat([whole, line.subarray(0, length)]));
      assert.deepEqual(found(), replay(all.slice(0, 3)), `${length} bytes`);
      written(all.slice(3));
      assert.deepEqual(found(), replay(all), `${length} bytes, and another line`);
    }
    assert.deepEqual(lines, []);
  });

  it("leaves out a line that is damaged, says which, and takes the others", () => {
    for (const damaged of ["{", "nonsense", '{"t":"lease","id":0}', '00000000 4 {"t":"published","object":2}', ""]) {
      lines = [];
      written(all.slice(0, 3));
      appendFileSync(path, `${damaged}\n`);
      written(all.slice(3));
      assert.deepEqual(found(), replay(all), damaged);
      assert.match(lines[0] ?? "", /^left out 1 damaged lines of .*: line 5$/);
      rmSync(path);
    }
  });

  it("names the first of many damaged lines", () => {
    written();
    appendFileSync(path, "damaged\n".repeat(1000));
    assert.deepEqual(found(), replay(all));
    assert.equal(lines.length, 1);
    assert.match(
      lines[0] ?? "",
      /^left out 1000 damaged lines of .*: line 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 and others$/,
    );
  });

  it("takes lines that were moved in their order, leaves out copies, and says how many are missing", () => {
    written([...all, { t: "object-ended", object: 2 }]);
    const truth = found();
    const [head = "", ...rest] = readFileSync(path, "utf8").split("\n").slice(0, -1);
    const reads = (lines: readonly string[]) => {
      writeFileSync(path, `${[head, ...lines].join("\n")}\n`);
      return found();
    };
    for (const line of rest) {
      assert.deepEqual(reads([line, ...rest]), truth, "a copy before all others");
      assert.deepEqual(reads([...rest, line]), truth, "a copy after all others");
    }
    assert.deepEqual(reads([...rest].reverse()), truth, "in another order");
    lines = [];
    reads(rest.slice(1));
    assert.match(lines.join("\n"), /^1 lines of .* are missing$/);
  });

  it("is read with a damaged first line, since each of the others says of which boot it is", () => {
    written();
    writeFileSync(path, readFileSync(path, "utf8").replace(BOOT, "tOOB"));
    assert.deepEqual(found(), replay(all));
    assert.match(lines.join("\n"), /^line 1 of .* is damaged/);
  });

  it("is of no use in another boot, and says so", () => {
    written();
    assert.deepEqual(found("later"), replay([]));
    assert.match(lines.join("\n"), /^does not use .*: it is of another boot/);
    written();
    assert.deepEqual(found("later"), replay([]));
  });

  it("of another version of this boot is refused, and stays as it is", () => {
    const text = `${JSON.stringify({ t: "journal", version: 1, boot: BOOT })}\n${JSON.stringify(all[0])}\n`;
    writeFileSync(path, text);
    const message = /another version of cuda-ipc wrote its 1 lines since the machine started\. Start that version/;
    assert.throws(open, (error) => hasCode(error, "HUB_UNAVAILABLE") && message.test(error.message));
    assert.equal(readFileSync(path, "utf8"), text);
  });

  it("of another version that says nothing is begun anew", () => {
    writeFileSync(path, `${JSON.stringify({ t: "journal", version: 1, boot: BOOT })}\n`);
    written();
    assert.deepEqual(found(), replay(all));
  });

  it("that cannot be read is not taken for an empty one", () => {
    mkdirSync(path);
    const message = /it is a folder and not a plain file.*move it away/;
    assert.throws(open, (error) => hasCode(error, "HUB_UNAVAILABLE") && message.test(error.message));
  });

  it("that a living process writes to is not taken for one that was left", () => {
    const journal = open();
    assert.throws(open, (error) => hasCode(error, "HUB_RUNNING"));
    journal.close();
    open().close();
  });

  /** Until it is taken back, writing to files fails as on a full disk, once so many bytes of a text were written. */
  function fullDisk(bytesBefore = 0, calls: ReadonlySet<string> = new Set()): () => void {
    const { writeSync } = fs;
    let [left, giveBack] = [bytesBefore, interceptFs((call) => (calls.has(call) ? errno.EIO : undefined))];
    fs.writeSync = ((fd: number, bytes: Uint8Array, offset: number, _: number, position: number) => {
      if (left === 0) throw Object.assign(new Error("ENOSPC: made to fail, write"), { errno: -28, code: "ENOSPC" });
      const length = left;
      left = 0;
      return writeSync(fd, bytes, offset, length, position);
    }) as typeof writeSync;
    syncBuiltinESMExports();
    return () => {
      fs.writeSync = writeSync;
      giveBack();
    };
  }

  it("refuses a gain that it cannot write, and writes an end together with what comes next", () => {
    written();
    const journal = open();
    const roomAgain = fullDisk();
    assert.throws(
      () => journal.append([object]),
      (error) => hasCode(error, "DISK_FULL"),
    );
    journal.append([{ t: "released", lease: 3 }]);
    journal.append([{ t: "unnamed", object: 2 }]);
    assert.match(lines.join("\n"), /^DISK_FULL: .*; what ends is written down as soon as that can be done$/);
    assert.throws(
      () => journal.append([lease]),
      (error) => hasCode(error, "DISK_FULL"),
    );
    roomAgain();
    journal.append([{ t: "last-id", id: 9 }]);
    journal.close();
    const { objects, leases, lastId } = found();
    assert.deepEqual([objects.get(2)?.named, leases.size, lastId], [false, 0, 9]);
  });

  it("writes what it owes when it is settled", () => {
    written();
    const journal = open();
    slices(journal, () => recordsOf(replay([session, object])));
    const roomAgain = fullDisk();
    journal.append([{ t: "released", lease: 3 }]);
    roomAgain();
    journal.settle();
    journal.close();
    assert.deepEqual(found(), replay([session, object, { t: "last-id", id: 2 }]));
  });

  for (const bytes of [200, 300, 333, 400, 512]) {
    it(`takes back what was half written when its file may not grow over ${bytes} bytes`, () => {
      const { stdout, stderr } = spawnSync("prlimit", [`--fsize=${bytes}`, process.execPath, APPENDS, path], {
        encoding: "utf8",
      });
      const { published, code } = JSON.parse(stdout || "{}") as { published: number; code: string };
      assert.equal(code, "SYSTEM_ERROR", stderr);
      assert.ok(published > 0);
      const text = readFileSync(path, "utf8");
      assert.ok(text.endsWith("\n"));
      found();
      assert.deepEqual(lines, [], "no line is damaged");
    });
  }

  it("cuts off only what was half written, also after a time when nothing could be cut off", () => {
    const journal = open();
    journal.append([session, object]);
    const fails = (record: HubRecord, calls: ReadonlySet<string>) => {
      const roomAgain = fullDisk(10, calls);
      try {
        assert.throws(() => journal.append([record]), { code: "DISK_FULL" });
      } finally {
        roomAgain();
      }
    };
    fails(lease, new Set(["ftruncateSync"]));
    journal.append([lease]);
    fails({ t: "published", object: 2 }, new Set());
    journal.append([{ t: "published", object: 2 }]);
    journal.close();
    assert.deepEqual(found(), replay(all));
    assert.match(lines.join("\n"), /^left out 1 damaged lines of .+\n1 lines of .+ are missing$/);
  });

  it("is written anew with what matters still, and goes on from there", () => {
    const journal = open();
    for (const record of all) journal.append([record]);
    for (let count = 0; count < 100; count += 1) journal.append([{ t: "published", object: 2 }]);
    const before = statSync(path).size;
    rewritten(journal, all);
    assert.ok(statSync(path).size < before);
    journal.append([{ t: "released", lease: 3 }]);
    journal.close();
    assert.deepEqual(found(), replay([...all, { t: "released", lease: 3 }]));
    assert.deepEqual(lines, []);
  });

  it("is whole whenever its hub dies in the middle of a rewrite", () => {
    const journal = open();
    for (const record of all) journal.append([record]);
    const many = Array.from(
      { length: 50_000 },
      (_, index): HubRecord => ({ ...object, id: 10 + index, name: `n${index}` }),
    );
    const next = slices(journal, () => [...all, ...many]);
    journal.rewrite();
    let slicesDone = 0;
    const before = readFileSync(path, "utf8");
    while (readFileSync(path, "utf8") === before) {
      assert.ok(next());
      slicesDone += 1;
    }
    assert.ok(slicesDone > 2, `${slicesDone} slices`);
    journal.close();
    assert.equal(found().objects.size, 1 + many.length);
  });

  it("is as it was where it cannot be written anew", () => {
    written();
    const journal = open();
    rmSync(`${path}.new`);
    mkdirSync(`${path}.new`);
    rewritten(journal, []);
    assert.match(lines.join(), /^cannot write .* anew: /);
    journal.append([{ t: "released", lease: 3 }]);
    journal.close();
    assert.deepEqual(found(), replay([...all, { t: "released", lease: 3 }]));
  });

  it("is written anew by itself once it has grown far over what it was, and not before", () => {
    const journal = open();
    const next = slices(journal, () => all);
    const many: HubRecord[] = Array.from({ length: 20_000 }, () => ({ t: "published", object: 2 }));
    let appended = 0;
    while (!next() && appended < 100) {
      journal.append(many);
      appended += 1;
    }
    assert.ok(appended > 5 && appended < 100, `${appended} times`);
    while (next());
    assert.ok(statSync(path).size < 10_000);
    journal.append(many.slice(0, 1));
    assert.equal(next(), false);
    journal.close();
    assert.deepEqual(found(), replay(all));
  });

  it("is gone once it was removed", () => {
    const journal = open();
    journal.remove();
    assert.deepEqual(readdirSync(folder.path), []);
    journal.close();
  });

  it("of another hub stays when it is removed", () => {
    const journal = open();
    writeFileSync(`${path}.other`, "of another");
    renameSync(`${path}.other`, path);
    journal.remove();
    assert.equal(readFileSync(path, "utf8"), "of another");
  });

  it("of another hub stays as it is while this one is held, and is written anew once it goes on", () => {
    const journal = open();
    for (const record of all) journal.append([record]);
    const next = slices(journal, () => all);
    journal.rewrite();
    writeFileSync(`${path}.other`, "of another");
    renameSync(`${path}.other`, path);
    journal.hold();
    journal.rewrite();
    journal.append([{ t: "released", lease: 3 }]);
    while (next());
    assert.equal(readFileSync(path, "utf8"), "of another");
    journal.goOn();
    while (next());
    journal.close();
    assert.deepEqual(found(), replay(all));
  });

  it("says the same again after it was read and written", () => {
    written();
    const state = found();
    assert.deepEqual(replay(recordsOf(state)), state);
  });
});
