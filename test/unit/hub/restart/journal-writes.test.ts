import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs, { mkdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { constants } from "node:os";
import { afterEach, beforeEach, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { hasCode } from "../../../../src/base/errors.js";
import { type HubRecord, recordsOf, replay } from "../../../../src/hub/restart/hub-records.js";
import { interceptFs } from "../../../support/intercept-fs.js";
import { checkLeaks } from "../../../support/leak-check.js";
import {
  all,
  begin,
  end,
  found,
  lease,
  lines,
  object,
  open,
  path,
  rewritten,
  session,
  slices,
  written,
} from "./journal-rig.js";

const { errno } = constants;
const APPENDS = fileURLToPath(new URL("../actors/appends-past-limit.js", import.meta.url));

describe("a journal that is written", () => {
  beforeEach(begin);
  afterEach(end);
  checkLeaks();

  /** Makes writes fail as on a full disk, after so many bytes. The returned function ends that. */
  function fullDisk(bytesBefore = 0, calls: ReadonlySet<string> = new Set()): () => void {
    const { writeSync } = fs;
    let [left, giveBack] = [
      bytesBefore,
      interceptFs((call) => (calls.has(call) ? errno.EIO : undefined)),
    ];
    fs.writeSync = ((
      fd: number,
      bytes: Uint8Array,
      offset: number,
      _: number,
      position: number,
    ) => {
      if (left === 0)
        throw Object.assign(new Error("ENOSPC: made to fail, write"), {
          errno: -28,
          code: "ENOSPC",
        });
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

  it("refuses a gain that it cannot write, and writes an owed end with the next record", () => {
    written();
    const journal = open();
    const roomAgain = fullDisk();
    assert.throws(
      () => journal.append([object]),
      (error) => hasCode(error, "DISK_FULL"),
    );
    journal.append([{ t: "released", lease: 3 }]);
    journal.append([{ t: "unnamed", object: 2 }]);
    assert.match(
      lines.join("\n"),
      /^DISK_FULL: .*; what ends is written down as soon as that can be done$/,
    );
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

  it("tries to write each owed end only now and then, however many there are", () => {
    written();
    const journal = open();
    const next = slices(journal, () => all);
    let attempted = 0;
    const { writeSync } = fs;
    fs.writeSync = ((_: number, bytes: Uint8Array): number => {
      attempted += bytes.byteLength;
      throw Object.assign(new Error("ENOSPC: made to fail, write"), { errno: -28, code: "ENOSPC" });
    }) as unknown as typeof writeSync;
    syncBuiltinESMExports();
    const ends = 1000;
    try {
      for (let lease = 1; lease <= ends; lease += 1) {
        journal.append([{ t: "released", lease }]);
        next();
      }
    } finally {
      fs.writeSync = writeSync;
      syncBuiltinESMExports();
    }
    assert.ok(attempted < 100 * ends * 20, `${attempted} bytes for ${ends} ends`);
    journal.settle();
    while (next());
    journal.close();
    assert.equal(found().leases.size, 0);
  });

  it("settle() writes the owed ends", () => {
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
    it(`removes a half-written record when its file may not grow over ${bytes} bytes`, () => {
      const { stdout, stderr } = spawnSync(
        "prlimit",
        [`--fsize=${bytes}`, process.execPath, APPENDS, path],
        {
          encoding: "utf8",
        },
      );
      const { published, code } = JSON.parse(stdout || "{}") as { published: number; code: string };
      assert.equal(code, "LIMIT_EXCEEDED", stderr);
      assert.ok(published > 0);
      const text = readFileSync(path, "utf8");
      assert.ok(text.endsWith("\n"));
      found();
      assert.deepEqual(lines, [], "no line is damaged");
    });
  }

  it("cuts off only half-written lines, even if cutting failed before", () => {
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

  it("is rewritten with the live records, and goes on from there", () => {
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

  it("is complete if its hub dies in the middle of a rewrite", () => {
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

  it("is unchanged if a rewrite fails", () => {
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

  it("is rewritten once it has grown by the limit, and not before", () => {
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

  it("stays short although each hub that writes to it is killed before it has grown much", () => {
    const MiB = 1024 * 1024;
    written();
    const dead: HubRecord[] = Array.from({ length: 60_000 }, () => ({ t: "published", object: 2 }));
    let longest = 0;
    for (let hubs = 0; hubs < 8; hubs += 1) {
      const journal = open();
      const next = slices(journal, () => all);
      journal.append(dead);
      while (next());
      journal.close();
      longest = Math.max(longest, statSync(path).size);
    }
    assert.ok(longest > 4 * MiB && longest < 12 * MiB, `${longest} bytes`);
    assert.deepEqual(found(), replay(all));
  });
});
