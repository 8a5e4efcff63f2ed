import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type FittedColumn, fittedTable } from "../../../../src/cli/terminal/fitted-table.js";
import { textWidth } from "../../../../src/cli/terminal/text-width.js";

const columns: readonly FittedColumn[] = [
  { title: "NAME", align: "left", rank: 0, widthMin: 6 },
  { title: "SIZE", align: "right", rank: 0 },
  { title: "HELD BY", align: "left", rank: 1, widthMin: 8 },
  { title: "AGE", align: "right", rank: 2 },
];
const rows = [
  ["weights", "12 GiB", "trainer.py 4242, viewer.mjs 4243", "3 h"],
  ["x", "4 KiB", "nobody", "12 s"],
];
const at = (width: number) => {
  const { title, lines } = fittedTable(columns, rows, width);
  return [title, ...lines].map((line) => line.trimEnd());
};

describe("fittedTable", () => {
  it("shows everything if there is room", () => {
    assert.deepEqual(at(80), [
      "NAME       SIZE  HELD BY                            AGE",
      "weights  12 GiB  trainer.py 4242, viewer.mjs 4243   3 h",
      "x         4 KiB  nobody                            12 s",
    ]);
  });

  it("narrows the least important columns, and leaves them out before others become short", () => {
    assert.deepEqual(at(48), [
      "NAME       SIZE  HELD BY                     AGE",
      "weights  12 GiB  trainer.py 4242, viewer.~   3 h",
      "x         4 KiB  nobody                     12 s",
    ]);
    assert.deepEqual(at(40), [
      "NAME       SIZE  HELD BY",
      "weights  12 GiB  trainer.py 4242, viewe~",
      "x         4 KiB  nobody",
    ]);
    assert.deepEqual(at(25), [
      "NAME       SIZE  HELD BY",
      "weights  12 GiB  trainer~",
      "x         4 KiB  nobody",
    ]);
    assert.deepEqual(at(16), ["NAME       SIZE", "weights  12 GiB", "x         4 KiB"]);
  });

  it("is never wider than the terminal, however narrow", () => {
    for (let width = 1; width < 100; width += 1) {
      const { title, lines } = fittedTable(columns, rows, width);
      for (const line of [title, ...lines])
        assert.ok(textWidth(line) <= width, `${width}: ${line}`);
    }
    assert.deepEqual(at(5), ["NAME", "weig~", "x"]);
  });

  it("shows control characters as text", () => {
    const { lines } = fittedTable(columns.slice(0, 1), [["a\u001b[2Jb\n"]], 40);
    assert.deepEqual(lines, ["a\\u001b[2Jb\\u000a"]);
  });
});
