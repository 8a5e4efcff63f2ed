import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { contiguousRuns, regularRunBytes } from "../../../src/array/coalesced-axes.js";
import { dtypeFacts, dtypeNames } from "../../../src/array/dtype.js";
import { contiguousLayout } from "../../../src/array/layout.js";
import { sliceLayout, transposeLayout } from "../../../src/array/layout-views.js";
import { gatherElements, scatterElements } from "../../../src/array/strided-copy.js";

const counting = (byteLength: number) => Uint8Array.from({ length: byteLength }, (_, i) => i % 251);

describe("gatherElements and scatterElements", () => {
  it("move a transposed, reversed part of every dtype there and back", () => {
    for (const dtype of dtypeNames) {
      const { byteSize } = dtypeFacts(dtype);
      const memory = counting(6 * 5 * byteSize + 16);
      const layout = transposeLayout(
        sliceLayout(contiguousLayout(dtype, [6, 5], 16), [{ step: -2 }, { start: 1 }]),
      );
      const packed = new Uint8Array(12 * byteSize);
      gatherElements(layout, { memory, packed });
      const wanted = [];
      for (const column of [1, 2, 3, 4]) {
        for (const row of [5, 3, 1]) {
          const start = 16 + (row * 5 + column) * byteSize;
          wanted.push(...memory.subarray(start, start + byteSize));
        }
      }
      assert.deepEqual([...packed], wanted, dtype);

      const copy = memory.map((byte, i) => (i < 16 ? byte : 255));
      scatterElements(layout, { memory: copy, packed });
      const again = new Uint8Array(packed.length);
      gatherElements(layout, { memory: copy, packed: again });
      assert.deepEqual(again, packed);
      assert.equal(
        copy.filter((byte, i) => i >= 16 && byte === 255).length,
        18 * byteSize,
        "keep the bytes between elements",
      );
    }
  });

  it("work on views that are not aligned to the elements", () => {
    const memory = counting(100).subarray(1);
    const packed = new Uint8Array(25).subarray(1);
    gatherElements(sliceLayout(contiguousLayout("float64", [6]), [{ step: 2 }]), {
      memory,
      packed,
    });
    assert.deepEqual(
      [...packed],
      [...memory.subarray(0, 8), ...memory.subarray(16, 24), ...memory.subarray(32, 40)],
    );
  });

  it("keep the bits of signalling NaNs", () => {
    const memory = new Uint8Array(Uint32Array.of(0x7fa00001, 0, 0xffa00001, 0).buffer);
    const packed = new Uint8Array(8);
    gatherElements(
      { dtype: "float32", shape: [2], strides: [2], byteOffset: 0 },
      { memory, packed },
    );
    assert.deepEqual([...new Uint32Array(packed.buffer)], [0x7fa00001, 0xffa00001]);
  });

  it("copy long rows too", () => {
    const memory = counting(4 * 1000);
    const packed = new Uint8Array(3 * 500);
    const layout = sliceLayout(contiguousLayout("uint8", [4, 1000]), [
      { start: 1 },
      { start: 10, stop: 510 },
    ]);
    gatherElements(layout, { memory, packed });
    assert.deepEqual(packed.subarray(500, 1000), memory.subarray(2010, 2510));
    const target = new Uint8Array(4000);
    scatterElements(layout, { memory: target, packed });
    assert.deepEqual(target.subarray(2010, 2510), memory.subarray(2010, 2510));
    assert.equal(target[2510], 0);
  });

  it("do nothing for an empty array", () => {
    gatherElements(contiguousLayout("int32", [0, 3]), {
      memory: new Uint8Array(0),
      packed: new Uint8Array(0),
    });
  });

  it("refuse a layout that leaves the memory, and a packed side of another length", () => {
    const layout = contiguousLayout("int32", [2]);
    for (const copy of [gatherElements, scatterElements]) {
      assert.throws(
        () => copy(layout, { memory: new Uint8Array(7), packed: new Uint8Array(8) }),
        /bytes 0 to 8 of 7/,
      );
      assert.throws(
        () => copy(layout, { memory: new Uint8Array(8), packed: new Uint8Array(9) }),
        /found 9 bytes, wanted 8/,
      );
      const backwards = { ...layout, strides: [-1] };
      assert.throws(
        () => copy(backwards, { memory: new Uint8Array(8), packed: new Uint8Array(8) }),
        RangeError,
      );
    }
  });
});

describe("contiguousRuns", () => {
  it("is one run for a contiguous array and none for an empty one", () => {
    assert.deepEqual(
      [...contiguousRuns(contiguousLayout("int32", [2, 3, 4], 8))],
      [{ byteOffset: 8, byteLength: 96 }],
    );
    assert.deepEqual(
      [...contiguousRuns(contiguousLayout("int32", [], 8))],
      [{ byteOffset: 8, byteLength: 4 }],
    );
    assert.deepEqual([...contiguousRuns(contiguousLayout("int32", [2, 0]))], []);
  });

  it("is one run for each row of a part, and for each element of a column", () => {
    const matrix = contiguousLayout("int16", [3, 5]);
    assert.deepEqual(
      [...contiguousRuns(sliceLayout(matrix, [{ step: -2 }, { start: 1, stop: 4 }]))],
      [
        { byteOffset: 22, byteLength: 6 },
        { byteOffset: 2, byteLength: 6 },
      ],
    );
    assert.deepEqual(
      [...contiguousRuns(sliceLayout(matrix, [{}, 2]))].map((run) => run.byteOffset),
      [4, 14, 24],
    );
  });

  it("merges adjacent runs", () => {
    const layout = { dtype: "uint8", shape: [2, 2], strides: [3, 2], byteOffset: 0 } as const;
    assert.deepEqual(
      [...contiguousRuns(layout)],
      [
        { byteOffset: 0, byteLength: 1 },
        { byteOffset: 2, byteLength: 2 },
        { byteOffset: 5, byteLength: 1 },
      ],
    );
  });
});

describe("regularRunBytes", () => {
  it("is known without walking", () => {
    const matrix = contiguousLayout("int16", [3, 5]);
    assert.equal(regularRunBytes(matrix), 30);
    assert.equal(regularRunBytes(sliceLayout(matrix, [{}, { stop: 4 }])), 8);
    assert.equal(regularRunBytes(transposeLayout(matrix)), 2);
    assert.equal(regularRunBytes(contiguousLayout("int16", [0])), 0);
  });
});
