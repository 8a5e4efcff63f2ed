/** The code above the driver interface works with a driver that it was not written for. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { DeviceArray } from "../../../src/gpu/arrays/device-array.js";
import { Device } from "../../../src/gpu/device.js";
import { readFileInto, writeFileFrom } from "../../../src/gpu/transfer/file-transfer.js";
import { openShared } from "../../../src/peer/open-shared.js";
import { share } from "../../../src/peer/share.js";
import { createFarDriver } from "../../support/far-driver.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestFolder } from "../../support/test-folder.js";

const openFar = () => Device.open("host", createFarDriver);

describe("a device whose memory the CPU does not see", () => {
  checkLeaks();

  it("has the name given by its driver", () => {
    using device = openFar();
    assert.equal(device.name, "far");
    assert.equal(device.cpuVisible, false);
  });

  it("transfers arrays with and without gaps through staging memory", async () => {
    using device = openFar();
    using array = DeviceArray.allocate(device, { dtype: "int32", shape: [4, 5] });
    const values = Int32Array.from({ length: 20 }, (_, i) => i);
    await array.write(values);
    assert.deepEqual(
      await array.transpose().read(),
      Int32Array.from({ length: 20 }, (_, i) => (i % 4) * 5 + Math.floor(i / 4)),
    );
    await array
      .slice({}, { start: 1, stop: 5, step: 2 })
      .write(Int32Array.of(-1, -2, -3, -4, -5, -6, -7, -8));
    assert.deepEqual([...(await array.read()).subarray(0, 10)], [0, -1, 2, -2, 4, 5, -3, 7, -4, 9]);
    assert.throws(
      () => array.view(),
      (error) => hasCode(error, "UNSUPPORTED"),
    );
  });

  it("copies on the device, and to and from the host device", async () => {
    using far = openFar();
    using host = Device.open("host");
    const shape = { dtype: "float32", shape: [1000] } as const;
    using first = DeviceArray.allocate(far, shape);
    using second = DeviceArray.allocate(far, shape);
    using there = DeviceArray.allocate(host, shape);
    await first.iota(1);
    await second.copyFrom(first);
    await there.copyFrom(second);
    assert.equal(there.view()[999], 1000);
    await there.iota(5);
    await first.copyFrom(there);
    assert.equal((await first.read())[0], 5);
  });

  it("reads and writes files", async () => {
    using folder = new TestFolder();
    using device = openFar();
    const bytes = Uint8Array.from({ length: 100_003 }, (_, i) => i);
    writeFileSync(folder.file("in"), bytes);
    using array = DeviceArray.allocate(device, { dtype: "uint8", shape: [bytes.byteLength] });
    const section = { byteOffset: 0, byteLength: bytes.byteLength };
    await using input = await open(folder.file("in"));
    await readFileInto(array.buffer, 0, { file: input, fileName: "in", ...section });
    assert.deepEqual(await array.read(), bytes);
    await using output = await open(folder.file("out"), "w+");
    await writeFileFrom(array.buffer, 0, { file: output, fileName: "out", ...section });
    assert.deepEqual(new Uint8Array(await output.readFile()), bytes);
  });

  it("shares an array with a device of the same kind", async () => {
    using device = openFar();
    using array = DeviceArray.allocate(device, { dtype: "int32", shape: [3] });
    await array.write([1, 2, 3]);
    using shared = share(array);
    using opened = await openShared(shared.document);
    assert.deepEqual([opened.device.name, [...(await opened.read())]], ["host", [1, 2, 3]]);
    using back = await openShared(shared.document, { device });
    assert.deepEqual([back.device.name, [...(await back.read())]], ["far", [1, 2, 3]]);
  });
});
