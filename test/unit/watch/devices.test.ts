import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { devicesOf } from "../../../src/watch/devices.js";
import { watchedObject } from "./samples.js";

const GPU = "GPU-01234567-89ab-cdef-0123-456789abcdef";

describe("devicesOf", () => {
  it("divides what is used among the hub's objects and others", () => {
    const objects = [
      watchedObject({ heldBytes: 10 }),
      watchedObject({ heldBytes: 20 }),
      watchedObject({ heldBytes: 5, device: GPU }),
    ];
    const gpu = { uuid: GPU, model: "NVIDIA Test", totalBytes: 100, usedBytes: 40, processes: [] };
    assert.deepEqual(devicesOf(objects, { totalBytes: 1000, usedBytes: 25 }, [gpu]), [
      {
        device: "host",
        model: undefined,
        totalBytes: 1000,
        usedBytes: 25,
        heldBytes: 30,
        othersBytes: 0,
        processes: [],
      },
      {
        device: GPU,
        model: "NVIDIA Test",
        totalBytes: 100,
        usedBytes: 40,
        heldBytes: 5,
        othersBytes: 35,
        processes: [],
      },
    ]);
  });

  it("has a GPU of which only the objects are known", () => {
    const [host, gpu] = devicesOf([watchedObject({ heldBytes: 5, device: GPU })], undefined, []);
    assert.equal(host?.totalBytes, undefined);
    assert.deepEqual([gpu?.device, gpu?.heldBytes, gpu?.othersBytes], [GPU, 5, undefined]);
  });
});
