import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ErrorCode } from "../../../../src/base/error-codes.js";
import { CudaIpcError, hasCode } from "../../../../src/base/errors.js";
import { limits } from "../../../../src/base/limits.js";
import { createHostDriver } from "../../../../src/driver/host/host-driver.js";
import { Device } from "../../../../src/gpu/device.js";
import { DeviceBuffer } from "../../../../src/gpu/memory/device-buffer.js";
import {
  ExportMarks,
  ImportedMark,
  ImportedMarks,
} from "../../../../src/gpu/memory/export-marks.js";
import { LegacyMemory } from "../../../../src/gpu/memory/legacy-memory.js";
import { Mapping } from "../../../../src/os/mapping.js";
import { openFile } from "../../../../src/os/open-file.js";
import { ownIdentity } from "../../../../src/os/process-identity.js";
import type { MarkLocation } from "../../../../src/wire/ipc-documents.js";
import { interceptDriver } from "../../../support/intercept-driver.js";
import { checkLeaks } from "../../../support/leak-check.js";

const code = (wanted: ErrorCode) => (error: unknown) => hasCode(error, wanted);

/** Reads a mark as an importer does. */
function wordAt({ fd, slot }: MarkLocation): bigint {
  const file = openFile(`/proc/self/fd/${fd}`, "read");
  const mapping = Mapping.shared(file, limits.exportsPerDeviceMax * 8, "read");
  try {
    return new BigInt64Array(mapping.view(0, mapping.byteLength).buffer)[slot] ?? -1n;
  } finally {
    mapping.close();
    file.close();
  }
}

describe("export marks", () => {
  checkLeaks();

  it("hold their generation until they end; the next in the slot is larger", () => {
    const marks = new ExportMarks();
    const [first, other] = [marks.add(), marks.add()];
    assert.notEqual(first.location.slot, other.location.slot);
    assert.deepEqual(
      [wordAt(first.location), wordAt(other.location)],
      [first, other].map((it) => BigInt(it.generation)),
    );
    first.end();
    assert.equal(wordAt(first.location), 0n);
    const next = marks.add();
    assert.deepEqual(next.location, first.location);
    assert.ok(next.generation > other.generation);
    assert.equal(wordAt(next.location), BigInt(next.generation));
    marks.close();
    marks.close();
  });

  it("are refused beyond the limit, until another mark ends", () => {
    const marks = new ExportMarks();
    const first = marks.add();
    for (let i = 1; i < limits.exportsPerDeviceMax; i += 1) marks.add();
    assert.throws(() => marks.add(), code("LIMIT_EXCEEDED"));
    first.end();
    marks.add();
    marks.close();
  });

  it("cannot be opened in their own process", () => {
    const marks = new ExportMarks();
    const { location } = marks.add();
    assert.throws(() => ImportedMarks.open(ownIdentity(), location, "it"), code("OWN_HANDLE"));
    marks.close();
  });

  it("end before their memory is freed, even if freeing fails", () => {
    let found: bigint | undefined;
    let location: MarkLocation | undefined;
    const after = (call: string) => {
      if (call !== "freeLegacy" || location === undefined) return;
      found = wordAt(location);
      throw new CudaIpcError("CUDA_ERROR", "Cannot free: made to fail");
    };
    const device = Device.open("host", () => interceptDriver(createHostDriver(), { after }));
    const buffer = DeviceBuffer.allocate(device, 1, { mechanism: "legacy" });
    ({ location } = LegacyMemory.handleOf(buffer.memory, "buffer").mark);
    assert.notEqual(wordAt(location), 0n);
    assert.throws(() => buffer.close(), code("CUDA_ERROR"));
    assert.equal(found, 0n);
    device.close();
  });
});

describe("the guard of an import", () => {
  const words = new BigInt64Array(2);
  const guard = (open: () => string, closed: string[] = []) =>
    new ImportedMark(words, 1, 7).guard("import it", open, (it) => closed.push(it));

  it("opens an existing export", () => {
    words[1] = 7n;
    const closed: string[] = [];
    assert.equal(
      guard(() => "opened", closed),
      "opened",
    );
    assert.deepEqual(closed, []);
  });

  it("refuses an export that ended, or whose slot was reused", () => {
    for (const word of [0n, 6n, 8n]) {
      words[1] = word;
      assert.throws(() => guard(() => assert.fail("it was opened")), code("STALE_HANDLE"));
    }
  });

  it("closes an export that ended while it was opened", () => {
    words[1] = 7n;
    const closed: string[] = [];
    const open = () => {
      words[1] = 0n;
      return "opened";
    };
    assert.throws(() => guard(open, closed), code("STALE_HANDLE"));
    assert.deepEqual(closed, ["opened"]);
  });

  it("throws the driver's error, or STALE_HANDLE with that error as its cause", () => {
    const failure = new CudaIpcError("INVALID_HANDLE", "Cannot import it: there is no such handle");
    const fail = (word: bigint) => () => {
      words[1] = word;
      throw failure;
    };
    words[1] = 7n;
    assert.throws(() => guard(fail(7n)), failure);
    assert.throws(
      () => guard(fail(0n)),
      (error) => hasCode(error, "STALE_HANDLE") && error.cause === failure,
    );
  });
});
