import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { hasCode } from "../../../../src/base/errors.js";
import { Device } from "../../../../src/gpu/device.js";
import { DescriptorMemory } from "../../../../src/gpu/memory/descriptor-memory.js";
import { DeviceBuffer } from "../../../../src/gpu/memory/device-buffer.js";
import { ImportCache } from "../../../../src/gpu/memory/import-cache.js";
import { mappedBytes } from "../../../../src/os/mapping.js";
import type { OwnedFd } from "../../../../src/os/owned-fd.js";
import { Disposables } from "../../../support/disposables.js";
import { checkLeaks } from "../../../support/leak-check.js";

describe("ImportCache", () => {
  let made = new Disposables();
  checkLeaks(() => made.end());
  let device: Device;
  let fd: OwnedFd;
  let imports: number;
  let cache: ImportCache;
  beforeEach(() => {
    made = new Disposables();
    device = made.add(Device.open("host"));
    const origin = made.add(DeviceBuffer.allocate(device, 4096));
    fd = made.add(origin.exportFd());
    imports = 0;
    cache = new ImportCache();
  });

  function open(key: string): DeviceBuffer {
    const memory = cache.open(key, () => {
      imports += 1;
      return DescriptorMemory.open(device, { allocationByteLength: 4096 }, fd, "read-write");
    });
    return DeviceBuffer.over(memory, { label: key, byteLength: 4096, access: "read-write" });
  }

  it("maps each key once, until the last user closes it", () => {
    const before = mappedBytes();
    const [one, other, third] = [open("a"), open("a"), open("b")];
    assert.deepEqual([imports, cache.size, mappedBytes() - before], [2, 2, 2 * 4096]);
    assert.equal(one.pointer, other.pointer);
    one.close();
    one.close();
    assert.equal(cache.size, 2);
    other.close();
    assert.equal(cache.size, 1);
    third.close();
    assert.deepEqual([cache.size], [0]);
    open("a").close();
    assert.equal(imports, 3);
  });

  it("keeps the mapping for one user after another closed it", async () => {
    const [one, other] = [open("a"), open("a")];
    one.close();
    await assert.rejects(one.read(0, new Uint8Array(1)), (error) => hasCode(error, "CLOSED"));
    await other.read(0, new Uint8Array(1));
    const again = open("a");
    assert.equal(imports, 1);
    other.close();
    await again.read(0, new Uint8Array(1));
    again.close();
  });

  it("forgets a failed import", () => {
    const failure = new Error("no");
    assert.throws(
      () =>
        cache.open("a", () => {
          throw failure;
        }),
      failure,
    );
    assert.equal(cache.size, 0);
    open("a").close();
  });

  it("keeps the mapping until a pending transfer is done", async () => {
    const one = open("a");
    const reading = one.read(0, new Uint8Array(4096));
    one.close();
    await reading;
    assert.equal(cache.size, 0);
  });
});
