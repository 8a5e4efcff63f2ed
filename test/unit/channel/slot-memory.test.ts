import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { SlotMemory, shapeOfMessage } from "../../../src/channel/slot-memory.js";
import { Device } from "../../../src/gpu/device.js";
import { DeviceBuffer } from "../../../src/gpu/memory/device-buffer.js";
import { checkLeaks } from "../../support/leak-check.js";

const SHAPE = { dtype: "int16", shape: [2, 3], slotBytes: 12, slotStride: 256 } as const;
const SLOTS = 2;

function open(byteLength = SLOTS * SHAPE.slotStride): {
  memory: SlotMemory<"int16">;
  close: () => void;
} {
  const device = Device.open("host");
  const memory = new SlotMemory<"int16">(
    DeviceBuffer.allocate(device, byteLength, { label: "slots" }),
    SHAPE,
  );
  const close = () => {
    memory.close();
    device.close();
  };
  return { memory, close };
}

describe("the shape of a message", () => {
  it("contradicts its bytes if no array can have it, also without elements", () => {
    const max = Number.MAX_SAFE_INTEGER;
    const shapes = [
      [0, max, 2],
      [max, max, 0],
      [0, 2 ** 53],
      [0, max],
    ];
    for (const shape of shapes) assert.equal(shapeOfMessage(SHAPE, 0, shape), "contradiction");
    assert.deepEqual(shapeOfMessage(SHAPE, 0, [0, 2 ** 40]), [0, 2 ** 40]);
    assert.deepEqual(shapeOfMessage(SHAPE, 8, [2, 2]), [2, 2]);
    assert.equal(shapeOfMessage(SHAPE, 8, [2, 2, 0]), "contradiction");
  });
});

describe("the arrays of a channel's slots", () => {
  checkLeaks();

  it("have the shape of the channel or of their message", async () => {
    const { memory, close } = open();
    for (let round = 0; round < 2; round += 1) {
      for (let slot = 0; slot < SLOTS; slot += 1) {
        using whole = memory.array(slot, undefined);
        await whole.write([1, 2, 3, 4, 5, 6].map((value) => value + slot));
        assert.deepEqual([whole.shape, whole.strides, whole.elementCount], [[2, 3], [3, 1], 6]);
        assert.deepEqual([whole.byteLength, whole.isContiguous, whole.dtype], [12, true, "int16"]);
        using part = memory.array(slot, [2]);
        assert.deepEqual([...(await part.read())], [1 + slot, 2 + slot]);
        assert.deepEqual(
          [part.elementCount, part.byteLength, part.layout.byteOffset],
          [2, 4, slot * 256],
        );
      }
    }
    close();
  });

  it("close one by one, even if another message already has the slot", async () => {
    const { memory, close } = open();
    const first = memory.array(0, undefined);
    first.close();
    using second = memory.array(0, undefined);
    await assert.rejects(first.read(), (error) => hasCode(error, "CLOSED"));
    await assert.rejects(first.iota(), (error) => hasCode(error, "CLOSED"));
    await second.iota();
    close();
  });

  it("share layouts that nobody can change", () => {
    const { memory, close } = open();
    using array = memory.array(0, undefined);
    const layout = array.layout as unknown as {
      byteOffset: number;
      shape: number[];
      strides: number[];
    };
    for (const change of [
      () => Object.assign(layout, { byteOffset: 256 }),
      () => layout.shape.push(1),
      () => layout.strides.pop(),
    ]) {
      assert.throws(change, TypeError);
    }
    close();
  });

  it("are refused with INVALID_DESCRIPTOR, each time, if they exceed the memory", () => {
    const { memory, close } = open(SHAPE.slotStride + 6);
    memory.array(0, undefined).close();
    for (let i = 0; i < 2; i += 1) {
      assert.throws(
        () => memory.array(1, undefined),
        (error) => hasCode(error, "INVALID_DESCRIPTOR"),
      );
    }
    close();
  });
});
