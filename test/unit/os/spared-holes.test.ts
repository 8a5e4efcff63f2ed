import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Device } from "../../../src/gpu/device.js";
import { DeviceBuffer } from "../../../src/gpu/memory/device-buffer.js";
import { spareHoles } from "../../../src/os/spared-holes.js";
import { checkLeaks } from "../../support/leak-check.js";
import { memoryFiles, pagesOf } from "../../support/memory-pages.js";

const BYTES = 2 << 20;

describe("a process that spares holes", () => {
  checkLeaks();

  it("reads imported memory without taking its pages", async () => {
    const before = new Set(memoryFiles().keys());
    using device = Device.open("host");
    using buffer = DeviceBuffer.allocate(device, BYTES);
    await buffer.write(BYTES - 1, Uint8Array.of(5));
    const atFirst = pagesOf(before).takenBytes;
    assert.ok(atFirst < BYTES);
    spareHoles();
    using fd = buffer.exportFd("read");
    using opened = DeviceBuffer.import(device, fd, { byteLength: BYTES });
    // Longer than what is read at once, and shorter.
    for (const byteLength of [BYTES, 100]) {
      const bytes = new Uint8Array(byteLength).fill(1);
      await opened.read(BYTES - byteLength, bytes);
      assert.equal(bytes.at(-1), 5);
      assert.ok(bytes.subarray(0, -1).every((byte) => byte === 0));
      assert.equal(pagesOf(before).takenBytes, atFirst);
    }
  });
});
