import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { Device } from "../../../src/gpu/device.js";
import { DeviceBuffer } from "../../../src/gpu/device-buffer.js";
import { ImportCache } from "../../../src/gpu/import-cache.js";
import { mappedBytes } from "../../../src/os/mapping.js";
import type { OwnedFd } from "../../../src/os/owned-fd.js";
import { Disposables } from "../../support/disposables.js";
import { checkLeaks } from "../../support/leak-check.js";

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
    return cache.open(key, () => {
      imports += 1;
      const sizes = { byteLength: 4096, allocationByteLength: 4096 };
      return DeviceBuffer.import(device, fd, { label: key, ...sizes, access: "read-write" });
    });
  }

  it("maps once for each key, however often it is opened, until the last is closed", () => {
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

  it("gives each its own end: what one closed, another still uses", async () => {
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

  it("remembers nothing of an import that failed", () => {
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

  it("keeps the mapping through a transfer that is under way", async () => {
    const one = open("a");
    const reading = one.read(0, new Uint8Array(4096));
    one.close();
    await reading;
    assert.equal(cache.size, 0);
  });
});
