import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import fc from "fast-check";

interface Rect {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}
interface MapObject {
  readonly id: number;
  readonly holder: string;
  readonly bytes: number;
}
interface Cell {
  readonly bytes: number;
  readonly object?: MapObject;
  readonly smaller?: readonly MapObject[];
}
interface Group {
  readonly who: string;
  readonly bytes: number;
  readonly objects: readonly MapObject[];
}

const PAGE = "../../../../../src/cli/dashboard/page/treemap.js";
/** It runs in browsers, and imports nothing. */
const { squarified, cellsOf, groupedByHolder } = (await import(
  fileURLToPath(new URL(PAGE, import.meta.url))
)) as {
  squarified(sizes: readonly number[], rect: Rect): Rect[];
  cellsOf(objects: readonly MapObject[], areaOfByte: number): Cell[];
  groupedByHolder(objects: readonly MapObject[], most: number): Group[];
};

const object = (id: number, bytes: number, holder = "a"): MapObject => ({ id, bytes, holder });

describe("squarified", () => {
  it("fills the rectangle with one for each size, in proportion and without overlaps", () => {
    const whole = { x: 0, y: 0, width: 1200, height: 200 };
    const sizes = fc.array(fc.integer({ min: 1, max: 1e12 }), { minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(sizes, (unsorted) => {
        const sorted = unsorted.sort((one, other) => other - one);
        const total = sorted.reduce((sum, size) => sum + size, 0);
        const rects = squarified(sorted, whole);
        assert.equal(rects.length, sorted.length);
        for (const [i, { x, y, width, height }] of rects.entries()) {
          const wanted = ((sorted[i] ?? 0) / total) * 240_000;
          assert.ok(Math.abs(width * height - wanted) < 1e-3 + wanted * 1e-6);
          assert.ok(x >= -1e-6 && y >= -1e-6 && x + width < 1200.001 && y + height < 200.001);
          for (const other of rects.slice(0, i)) {
            const across = Math.min(x + width, other.x + other.width) - Math.max(x, other.x);
            const down = Math.min(y + height, other.y + other.height) - Math.max(y, other.y);
            assert.ok(across < 1e-6 || down < 1e-6, "two overlap");
          }
        }
      }),
      { numRuns: 100 },
    );
  });

  it("makes cells of equal sizes about square", () => {
    const rects = squarified(Array(24).fill(1), { x: 0, y: 0, width: 600, height: 400 });
    for (const { width, height } of rects)
      assert.ok(Math.max(width / height, height / width) < 1.6, `${width} x ${height}`);
  });
});

describe("cellsOf", () => {
  it("joins all objects that would be too small, in the order of sizes", () => {
    const objects = [object(1, 1000), object(2, 400), ...[3, 4, 5].map((id) => object(id, 300))];
    const cells = cellsOf(objects, 1);
    assert.deepEqual(
      cells.map(({ bytes, object, smaller }) => [bytes, object?.id ?? smaller?.length]),
      [
        [1000, 1],
        [900, 3],
        [400, 2],
      ],
    );
    assert.equal(cellsOf(objects.slice(0, 3), 1).at(-1)?.object?.id, 3);
    assert.equal(cellsOf(objects, 10).length, 5);
  });
});

describe("groupedByHolder", () => {
  it("sorts holders and their objects by size, and joins the smallest holders", () => {
    const objects = [
      object(1, 5, "a"),
      object(2, 50, "b"),
      object(3, 0, "nothing"),
      object(4, 10, "a"),
      object(5, 2, "c"),
      object(6, 1, "d"),
    ];
    const groups = groupedByHolder(objects, 2).map(({ who, bytes, objects }) => [
      who,
      bytes,
      objects.map(({ id }) => id),
    ]);
    assert.deepEqual(groups, [
      ["b", 50, [2]],
      ["a", 15, [4, 1]],
      ["2 more holders", 3, [5, 6]],
    ]);
    assert.equal(groupedByHolder(objects, 3).length, 4);
  });
});
