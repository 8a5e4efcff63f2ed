/** Legacy memory of a name: the mark is looked at before and after its handle is opened. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../../src/base/errors.js";
import { poison } from "../../../../src/base/timeline-line.js";
import type { GpuDriver } from "../../../../src/driver/gpu-driver.js";
import { createHostDriver } from "../../../../src/driver/host/host-driver.js";
import type { DevicePointer } from "../../../../src/driver/memory-calls.js";
import { Device } from "../../../../src/gpu/device.js";
import { Mapping } from "../../../../src/os/mapping.js";
import { createMemoryFile } from "../../../../src/os/memory-file.js";
import type { OwnedFd } from "../../../../src/os/owned-fd.js";
import { MARK_BYTES, markAt } from "../../../../src/wire/legacy-mark.js";
import { checkLeaks } from "../../../support/leak-check.js";

const BLOCK_BYTES = 2 ** 21;
const handle = `${"A".repeat(86)}==`;

/** A device whose driver opens any handle, as CUDA opens that of freed memory. */
function anyHandle(onOpen: () => void = () => {}) {
  const opened: DevicePointer[] = [];
  const honest = createHostDriver();
  const changes: Partial<GpuDriver> = {
    importLegacy: (ordinal) => {
      onOpen();
      const pointer = honest.allocateLegacy(ordinal, BLOCK_BYTES);
      opened.push(pointer);
      return { pointer, blockByteLength: BLOCK_BYTES };
    },
    closeLegacy: (ordinal, pointer) => {
      opened.splice(opened.indexOf(pointer), 1);
      honest.freeLegacy(ordinal, pointer);
    },
  };
  const device = Device.open("host", () => ({ ...honest, ...changes }));
  return { device, opened };
}

function mark() {
  const fd = createMemoryFile("mark", MARK_BYTES);
  const mapping = Mapping.shared(fd, MARK_BYTES, "read-write");
  return {
    fd,
    end: () => poison(markAt(mapping.view(0, MARK_BYTES).buffer)),
    [Symbol.dispose]: () => {
      mapping.close();
      fd.close();
    },
  };
}

function open(device: Device, { fd }: { readonly fd: OwnedFd }) {
  const descriptor = {
    device: device.reference,
    mechanism: "legacy",
    legacy: { handle },
    allocationByteLength: BLOCK_BYTES,
  } as const;
  return device.legacyImports.openNamed(device, descriptor, fd, "read");
}

describe("legacy memory of a name", () => {
  checkLeaks();

  it("is not opened once its mark has ended", () => {
    const { device, opened } = anyHandle(() => assert.fail("the handle was opened"));
    using _ = device;
    using ended = mark();
    ended.end();
    assert.throws(
      () => open(device, ended),
      (e) => hasCode(e, "PEER_GONE"),
    );
    assert.deepEqual(opened, []);
  });

  it("is closed again if its mark ends while its handle is opened", () => {
    using ending = mark();
    const { device, opened } = anyHandle(() => ending.end());
    using _ = device;
    assert.throws(
      () => open(device, ending),
      (e) => hasCode(e, "PEER_GONE"),
    );
    assert.deepEqual(opened, []);
  });

  it("throws IN_USE while memory of the same handle, whose mark has ended, is still open", () => {
    const { device, opened } = anyHandle();
    using _ = device;
    using older = mark();
    using newer = mark();
    const memory = open(device, older);
    assert.equal(memory.gone, false);
    older.end();
    assert.equal(memory.gone, true);
    assert.throws(
      () => open(device, newer),
      (e) => hasCode(e, "IN_USE"),
    );
    memory.release();
    const next = open(device, newer);
    assert.equal(opened.length, 1);
    next.release();
  });

  it("refuses a mark that is too short", () => {
    const { device } = anyHandle(() => assert.fail("the handle was opened"));
    using _ = device;
    const fd = createMemoryFile("mark", MARK_BYTES / 2);
    try {
      assert.throws(
        () => open(device, { fd }),
        (e) => hasCode(e, "INVALID_DESCRIPTOR"),
      );
    } finally {
      fd.close();
    }
  });
});
