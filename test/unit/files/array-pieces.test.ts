import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readFirst, readPieces, readPiecesInAnyOrder } from "../../../src/files/array-pieces.js";
import { DeviceArray } from "../../../src/gpu/arrays/device-array.js";
import { Device } from "../../../src/gpu/device.js";

async function withArray(
  shape: number[],
  work: (array: DeviceArray<"float32">) => Promise<void>,
): Promise<void> {
  using device = Device.open("host");
  using array = DeviceArray.allocate(device, { dtype: "float32", shape });
  await array.write(Float32Array.from({ length: array.elementCount }, (_, i) => i));
  await work(array);
}

async function collect(
  array: DeviceArray,
  pieceBytes: number,
): Promise<{ values: number[]; longest: number }> {
  const values: number[] = [];
  let longest = 0;
  for await (const piece of readPieces(array, {}, pieceBytes)) {
    longest = Math.max(longest, piece.byteLength);
    values.push(...new Float32Array(piece.slice().buffer));
  }
  return { values, longest };
}

describe("readPieces", () => {
  for (const pieceBytes of [4, 16, 20, 44, 4096]) {
    it(`gives all elements in C order in pieces of at most ${pieceBytes} bytes`, async () => {
      await withArray([3, 4, 5], async (array) => {
        const views = [
          array,
          array.transpose(),
          array.slice({}, { start: 1, stop: 4, step: 2 }),
          array.slice(1),
          array.slice({ step: -1 }),
        ];
        for (const view of views) {
          const { values, longest } = await collect(view, pieceBytes);
          assert.deepEqual(values, [...(await view.read())]);
          assert.ok(longest <= pieceBytes);
        }
      });
    });
  }

  it("yields nothing for an empty array, and one element for an array without axes", async () => {
    await withArray([0, 3], async (array) =>
      assert.deepEqual((await collect(array, 16)).values, []),
    );
    await withArray([], async (array) => assert.deepEqual((await collect(array, 16)).values, [0]));
  });
});

describe("readPiecesInAnyOrder", () => {
  it("yields each element once, and does not split an array without gaps", async () => {
    await withArray([3, 4, 5], async (array) => {
      for (const view of [
        array,
        array.transpose(),
        array.transpose(1, 2, 0),
        array.slice({}, { step: 2 }),
      ]) {
        const values: number[] = [];
        let pieces = 0;
        for await (const piece of readPiecesInAnyOrder(view)) {
          values.push(...new Float32Array(piece.slice().buffer));
          pieces += 1;
        }
        assert.equal(pieces, 1);
        const wanted = [...(await view.read())].sort((a, b) => a - b);
        assert.deepEqual(
          values.sort((a, b) => a - b),
          wanted,
        );
      }
    });
  });
});

describe("readFirst", () => {
  for (const count of [1, 3, 5, 8, 20, 21, 60, 100]) {
    it(`gives the first ${count} elements in C order`, async () => {
      await withArray([3, 4, 5], async (array) => {
        for (const view of [array, array.transpose(), array.slice({}, { step: 2 }, { step: -1 })]) {
          const bytes = await readFirst(view, count);
          assert.deepEqual(
            [...new Float32Array(bytes.slice().buffer)],
            [...(await view.read())].slice(0, count),
          );
        }
      });
    });
  }

  it("returns fewer elements if the array has fewer", async () => {
    await withArray([0, 3], async (array) => assert.equal((await readFirst(array, 8)).length, 0));
    await withArray([], async (array) => assert.equal((await readFirst(array, 8)).length, 4));
  });
});
