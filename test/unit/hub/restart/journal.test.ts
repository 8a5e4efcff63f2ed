import assert from "node:assert/strict";
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { afterEach, beforeEach, describe, it } from "node:test";
import { hasCode } from "../../../../src/base/errors.js";
import { recordsOf, replay } from "../../../../src/hub/restart/hub-records.js";
import { checkLeaks } from "../../../support/leak-check.js";
import {
  all,
  BOOT,
  begin,
  end,
  folder,
  found,
  lines,
  open,
  path,
  slices,
  written,
} from "./journal-rig.js";

describe("Journal", () => {
  beforeEach(begin);
  afterEach(end);
  checkLeaks();

  it("returns what was appended, and nothing if there is no file", () => {
    assert.deepEqual(found(), replay([]));
    written();
    assert.deepEqual(found(), replay(all));
    assert.equal(statSync(path).mode & 0o777, 0o600);
    assert.deepEqual(lines, []);
  });

  it("drops an unfinished last line, cut at any byte, and goes on behind the last complete line", () => {
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

  it("skips and names a damaged line, and reads the others", () => {
    for (const damaged of [
      "{",
      "nonsense",
      '{"t":"lease","id":0}',
      '00000000 4 {"t":"published","object":2}',
      "",
    ]) {
      lines.length = 0;
      written(all.slice(0, 3));
      appendFileSync(path, `${damaged}\n`);
      written(all.slice(3));
      assert.deepEqual(found(), replay(all), damaged);
      assert.match(lines[0] ?? "", /^left out 1 damaged lines of .*: line 5$/);
      rmSync(path);
    }
  });

  it("names the first ten of many damaged lines", () => {
    written();
    appendFileSync(path, "damaged\n".repeat(1000));
    assert.deepEqual(found(), replay(all));
    assert.equal(lines.length, 1);
    assert.match(
      lines[0] ?? "",
      /^left out 1000 damaged lines of .*: line 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 and others$/,
    );
  });

  it("reads moved lines in order, skips copies, and counts missing lines", () => {
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
    lines.length = 0;
    reads(rest.slice(1));
    assert.match(lines.join("\n"), /^1 lines of .* are missing$/);
  });

  it("is read despite a damaged first line, because each line proves its boot", () => {
    written();
    writeFileSync(path, readFileSync(path, "utf8").replace(BOOT, "tOOB"));
    assert.deepEqual(found(), replay(all));
    assert.match(lines.join("\n"), /^line 1 of .* is damaged/);
  });

  it("is not used in another boot, and says so", () => {
    written();
    assert.deepEqual(found("later"), replay([]));
    assert.match(lines.join("\n"), /^does not use .*: it is of another boot/);
    written();
    assert.deepEqual(found("later"), replay([]));
  });

  it("of another version of this boot is refused and left unchanged", () => {
    const text = `${JSON.stringify({ t: "journal", version: 1, boot: BOOT })}\n${JSON.stringify(all[0])}\n`;
    writeFileSync(path, text);
    const message =
      /another version of cuda-ipc wrote its 1 lines since the machine started\. Start that version/;
    assert.throws(
      open,
      (error) => hasCode(error, "HUB_UNAVAILABLE") && message.test(error.message),
    );
    assert.equal(readFileSync(path, "utf8"), text);
  });

  it("of another version without records is started anew", () => {
    writeFileSync(path, `${JSON.stringify({ t: "journal", version: 1, boot: BOOT })}\n`);
    written();
    assert.deepEqual(found(), replay(all));
  });

  it("that cannot be read is refused, not taken for an empty one", () => {
    mkdirSync(path);
    const message = /it is a folder and not a plain file.*move it away/;
    assert.throws(
      open,
      (error) => hasCode(error, "HUB_UNAVAILABLE") && message.test(error.message),
    );
  });

  it("that a living process writes to is refused", () => {
    const journal = open();
    assert.throws(open, (error) => hasCode(error, "HUB_RUNNING"));
    journal.close();
    open().close();
  });

  it("remove() deletes its files", () => {
    const journal = open();
    journal.remove();
    assert.deepEqual(readdirSync(folder.path), []);
    journal.close();
  });

  it("remove() leaves the file of another hub", () => {
    const journal = open();
    writeFileSync(`${path}.other`, "of another");
    renameSync(`${path}.other`, path);
    journal.remove();
    assert.equal(readFileSync(path, "utf8"), "of another");
  });

  it("leaves another hub's file alone after hold(), and rewrites it after goOn()", () => {
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

  it("makes the same records after it was read and written again", () => {
    written();
    const state = found();
    assert.deepEqual(replay(recordsOf(state)), state);
  });
});
