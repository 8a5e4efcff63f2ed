import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { limits } from "../../../../src/base/limits.js";
import { Device } from "../../../../src/gpu/device.js";
import { DeviceBuffer } from "../../../../src/gpu/memory/device-buffer.js";
import { fillNewPiece, takePiece } from "../../../../src/gpu/transfer/piece-transfer.js";
import { viewAt } from "../../../../src/os/host-memory.js";
import { Disposables } from "../../../support/disposables.js";
import { checkLeaks } from "../../../support/leak-check.js";

const PIECES = 8;

describe("pieces of new memory", () => {
  let made = new Disposables();
  checkLeaks(() => {
    made.end();
    made = new Disposables();
  });

  /** Memory that this process allocated, and the same memory as another process opens it. */
  function buffers(byteLength: number): readonly DeviceBuffer[] {
    const device = made.add(Device.open("host"));
    const own = made.add(DeviceBuffer.allocate(device, byteLength));
    using fd = own.exportFd();
    const sizes = { byteLength, allocationByteLength: own.allocationByteLength };
    const options = { ...sizes, access: "read-write" } as const;
    return [own, made.add(DeviceBuffer.import(device, fd, options))];
  }

  it("get their bytes, at any offset and of any length", async () => {
    for (const buffer of buffers(limits.stagingBytes + 100)) {
      const bytes = Uint8Array.from({ length: 1001 }, (_, i) => i);
      await fillNewPiece(buffer, 77, bytes.byteLength, async (address) =>
        viewAt(address, bytes.byteLength).set(bytes),
      );
      const found = new Uint8Array(bytes.byteLength + 2);
      await buffer.read(76, found);
      assert.deepEqual(found, Uint8Array.of(0, ...bytes, 0));
      let taken: Uint8Array | undefined;
      await takePiece(buffer, 77, bytes.byteLength, async (address) => {
        taken = viewAt(address, bytes.byteLength).slice();
      });
      assert.deepEqual(taken, bytes);
    }
  });

  it("stay as they are if the bytes do not come", async () => {
    for (const buffer of buffers(100)) {
      const failure = new Error("no bytes");
      await assert.rejects(
        fillNewPiece(buffer, 0, 100, () => Promise.reject(failure)),
        failure,
      );
      const found = new Uint8Array(100);
      await buffer.read(0, found);
      assert.ok(found.every((byte) => byte === 0));
    }
  });

  it("take no pages of this process, however many there are", async () => {
    const byteLength = PIECES * limits.stagingBytes;
    const [buffer] = buffers(byteLength);
    assert.ok(buffer);
    const before = sharedPagesKiB();
    for (let at = 0; at < byteLength; at += limits.stagingBytes)
      await fillNewPiece(buffer, at, limits.stagingBytes, async (address) => {
        viewAt(address, limits.stagingBytes).fill(1);
      });
    const grown = sharedPagesKiB() - before;
    assert.ok(grown < limits.stagingBytes / 1024, `${grown} KiB of shared memory are mapped`);
  });
});

function sharedPagesKiB(): number {
  return Number(/^RssShmem:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1]);
}
