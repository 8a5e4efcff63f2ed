import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs, { appendFileSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { constants } from "node:os";
import { afterEach, beforeEach, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { hasCode } from "../../../src/base/errors.js";
import { type HubRecord, type HubState, recordsOf, replay } from "../../../src/hub/hub-records.js";
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

  function written(records: readonly HubRecord[] = all): void {
    const journal = Journal.create(path, BOOT, replay([]), log);
    for (const record of records) journal.append([record]);
    journal.close();
  }

  function found(boot = BOOT): HubState {
    return Journal.read(path, boot, log);
  }

  it("gives back what was appended, and nothing where there is no file", () => {
    assert.deepEqual(found(), replay([]));
    written();
    assert.deepEqual(found(), replay(all));
    assert.equal(statSync(path).mode & 0o777, 0o600);
    assert.deepEqual(lines, []);
  });

  it("begins with the state that it is made with, in the place of what was there", () => {
    writeFileSync(path, "something else");
    Journal.create(path, BOOT, replay(all), log).close();
    assert.deepEqual(found(), replay(all));
    assert.equal(existsSync(`${path}.new`), false);
  });

  it("leaves out what its writer did not live to finish, after each byte of it", () => {
    written(all.slice(0, 3));
    const whole = readFileSync(path);
    const line = Buffer.from(`${JSON.stringify(all[3])}\n`);
    for (let length = 0; length < line.byteLength; length += 1) {
      writeFileSync(path, Buffer.concat([whole, line.subarray(0, length)]));
      assert.deepEqual(found(), replay(all.slice(0, 3)), `${length} bytes`);
    }
    assert.deepEqual(lines, []);
  });

  it("leaves out a line that is damaged, says which, and takes the others", () => {
    for (const damaged of ["{", "nonsense", '{"t":"lease","id":0}', '{"t":"unheard-of"}', ""]) {
      lines = [];
      written(all.slice(0, 3));
      appendFileSync(path, `${damaged}\n${JSON.stringify(all[3])}\n`);
      assert.deepEqual(found(), replay(all), damaged);
      assert.equal(lines.length, 1);
      assert.match(lines[0] ?? "", /^left out line \d+ of /);
    }
  });

  it("is of no use in another boot or another version, and says so", () => {
    written();
    assert.deepEqual(found("later"), replay([]));
    writeFileSync(path, readFileSync(path, "utf8").replace('"version":1', '"version":2'));
    assert.deepEqual(found(), replay([]));
    assert.equal(lines.length, 2);
    for (const line of lines) assert.match(line, /another boot or another version/);
  });

  it("that cannot be read is not taken for an empty one", () => {
    mkdirSync(path);
    assert.throws(found, (error) => hasCode(error, "HUB_UNAVAILABLE") && /EISDIR.*move it away/.test(error.message));
  });

  /** A journal that says all, and from here on whatever is written finds no room. */
  function onFullDisk(): { readonly journal: Journal; makeRoom(): void } {
    const journal = Journal.create(path, BOOT, replay(all), log);
    return { journal, makeRoom: interceptFs((call) => (call === "writeSync" ? errno.ENOSPC : undefined)) };
  }

  it("refuses a gain that it cannot write, and writes an end later", () => {
    const { journal, makeRoom } = onFullDisk();
    try {
      assert.throws(
        () => journal.append([{ ...object, id: 9 }]),
        (error) => hasCode(error, "DISK_FULL"),
      );
      journal.append([{ t: "released", lease: 3 }]);
      journal.append([{ t: "released", lease: 3 }]);
      assert.match(lines.join("\n"), /^DISK_FULL: .*; what ends is written down as soon as that can be done$/);
      assert.throws(
        () => journal.append([lease]),
        (error) => hasCode(error, "DISK_FULL"),
      );
    } finally {
      makeRoom();
    }
    journal.settle(replay(all.slice(0, 2)));
    journal.append([{ t: "released", lease: 3 }]);
    journal.close();
    const state = found();
    assert.deepEqual([...state.objects.keys(), ...state.leases.keys()], [2]);
  });

  it("writes what it owes together with what comes next", () => {
    const { journal, makeRoom } = onFullDisk();
    try {
      journal.append([{ t: "released", lease: 3 }]);
    } finally {
      makeRoom();
    }
    assert.equal(found().leases.size, 1);
    journal.append([{ t: "unnamed", object: 2 }]);
    assert.equal(found().leases.size, 0);
    journal.close();
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
    const journal = Journal.create(path, BOOT, replay([]), log);
    journal.append([session, object]);
    const fails = (record: HubRecord, calls: ReadonlySet<string>) => {
      let writes = 0;
      const { writeSync } = fs;
      const half = (fd: number, bytes: Uint8Array, offset: number) => {
        writes += 1;
        if (writes > 1) throw Object.assign(new Error("ENOSPC: made to fail, write"), { errno: -28, code: "ENOSPC" });
        return writeSync(fd, bytes, offset, 10);
      };
      const giveBack = interceptFs((call) => (calls.has(call) ? errno.EIO : undefined));
      const intercepted = fs.writeSync;
      fs.writeSync = half as typeof writeSync;
      syncBuiltinESMExports();
      try {
        assert.throws(() => journal.append([record]), { code: "DISK_FULL" });
      } finally {
        fs.writeSync = intercepted;
        giveBack();
      }
    };
    fails(lease, new Set(["ftruncateSync"]));
    journal.append([lease]);
    fails({ t: "published", object: 2 }, new Set());
    journal.append([{ t: "published", object: 2 }]);
    journal.close();
    assert.deepEqual(found(), replay(all));
    assert.match(lines.join("\n"), /^cannot take back .+\nleft out line \d+ of .+$/);
  });

  it("is written anew with what matters still, and goes on from there", () => {
    const journal = Journal.create(path, BOOT, replay([]), log);
    for (const record of all) journal.append([record]);
    for (let count = 0; count < 100; count += 1) journal.append([{ t: "published", object: 2 }]);
    const before = statSync(path).size;
    journal.compact(replay(all));
    assert.ok(statSync(path).size < before);
    journal.append([{ t: "released", lease: 3 }]);
    journal.close();
    assert.deepEqual(found(), replay([...all, { t: "released", lease: 3 }]));
  });

  it("is as it was where it cannot be written anew", () => {
    const journal = Journal.create(path, BOOT, replay(all), log);
    mkdirSync(`${path}.new`);
    writeFileSync(`${path}.new/in-the-way`, "");
    journal.compact(replay([]));
    assert.match(lines.join(), /^cannot write .* anew: /);
    journal.append([{ t: "released", lease: 3 }]);
    journal.close();
    assert.deepEqual(found(), replay([...all, { t: "released", lease: 3 }]));
  });

  it("is long once it has grown far over what it was, and not before", () => {
    const journal = Journal.create(path, BOOT, replay([]), log);
    const many: HubRecord[] = Array.from({ length: 20_000 }, () => ({ t: "published", object: 2 }));
    let appended = 0;
    while (!journal.isLong && appended < 100) {
      journal.append(many);
      appended += 1;
    }
    assert.ok(journal.isLong && appended > 5);
    journal.compact(replay(all));
    assert.equal(journal.isLong, false);
    journal.close();
  });

  it("is gone once it was removed", () => {
    const journal = Journal.create(path, BOOT, replay(all), log);
    journal.remove();
    assert.equal(existsSync(path), false);
    journal.close();
  });

  it("says the same again after it was read and written", () => {
    written();
    const state = found();
    assert.deepEqual(replay(recordsOf(state)), state);
  });
});
