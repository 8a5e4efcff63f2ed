import assert from "node:assert/strict";
import { ftruncateSync, openSync, readFileSync, writeSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { Mapping, mappedBytes } from "../../../src/os/mapping.js";
import {
  createConstantFile,
  createMemoryFile,
  inspectMemoryFile,
  reopenReadOnly,
} from "../../../src/os/memory-file.js";
import { OwnedFd } from "../../../src/os/owned-fd.js";
import { checkLeaks } from "../../support/leak-check.js";

describe("createMemoryFile", () => {
  checkLeaks();

  it("makes zeroed memory of exactly the size", () => {
    using fd = createMemoryFile("test", 5000);
    using mapping = Mapping.shared(fd, 5000, "read");
    assert.deepEqual(inspectMemoryFile(fd), {
      byteLength: 5000,
      sizeSealed: true,
      contentSealed: false,
      writable: true,
    });
    assert.ok(mapping.view(0, 5000).every((byte) => byte === 0));
  });

  it("makes memory that nobody can shrink or grow", () => {
    using fd = createMemoryFile("test", 4096);
    assert.throws(() => ftruncateSync(fd.number, 0), /EPERM/);
    assert.throws(() => ftruncateSync(fd.number, 8192), /EPERM/);
  });

  it("makes memory that two mappings share", () => {
    using fd = createMemoryFile("test", 4096);
    using one = Mapping.shared(fd, 4096, "read-write");
    using other = Mapping.shared(fd, 4096, "read");
    one.view(0, 4096)[100] = 7;
    assert.equal(other.view(0, 4096)[100], 7);
  });

  it("leaves nothing behind where the size is refused", () => {
    assert.throws(
      () => createMemoryFile("test", -1),
      (error) => hasCode(error, "SYSTEM_ERROR") && /EINVAL/.test(error.message),
    );
  });
});

describe("createConstantFile", () => {
  checkLeaks();

  it("holds the bytes, and nobody can change them, its creator included", () => {
    const content = Buffer.from("constant");
    using fd = createConstantFile("test", content);
    assert.deepEqual(inspectMemoryFile(fd), { byteLength: 8, sizeSealed: true, contentSealed: true, writable: false });
    assert.equal(readFileSync(`/proc/self/fd/${fd.number}`, "utf8"), "constant");
    assert.throws(() => writeSync(fd.number, content, 0, 1, 0), /EPERM/);
    assert.throws(() => ftruncateSync(fd.number, 0), /EPERM/);
    assert.throws(
      () => Mapping.shared(fd, 8, "read-write"),
      (error) => hasCode(error, "PERMISSION_DENIED"),
    );
  });
});

describe("inspectMemoryFile", () => {
  checkLeaks();

  it("finds nothing sealed on a file that is no memory file", () => {
    using fd = new OwnedFd(openSync("/dev/null", "r"));
    assert.deepEqual(inspectMemoryFile(fd), {
      byteLength: 0,
      sizeSealed: false,
      contentSealed: false,
      writable: false,
    });
  });
});

describe("reopenReadOnly", () => {
  checkLeaks();

  it("gives a descriptor of the same memory that cannot be mapped writable, and not be made so", () => {
    using fd = createMemoryFile("test", 4096);
    using writable = Mapping.shared(fd, 4096, "read-write");
    using readOnly = reopenReadOnly(fd);
    using mapping = Mapping.shared(readOnly, 4096, "read");
    writable.view(0, 1)[0] = 42;
    assert.equal(mapping.view(0, 1)[0], 42);
    const before = mappedBytes();
    assert.throws(
      () => Mapping.shared(readOnly, 4096, "read-write"),
      (error) => hasCode(error, "PERMISSION_DENIED"),
    );
    assert.throws(() => writeSync(readOnly.number, Buffer.alloc(1)), /EBADF/);
    assert.equal(mappedBytes(), before);
  });
});

describe("Mapping", () => {
  checkLeaks();

  it("gives windows inside of the memory and no others", () => {
    using mapping = Mapping.anonymous(4096);
    mapping.view(4095, 1)[0] = 9;
    assert.equal(mapping.view(0, 4096)[4095], 9);
    assert.equal(mapping.view(4096, 0).byteLength, 0);
    assert.throws(() => mapping.view(4096, 1), RangeError);
    assert.throws(() => mapping.view(-1, 1), RangeError);
  });

  it("counts its bytes until it is closed, and throws CLOSED afterwards", () => {
    const before = mappedBytes();
    const mapping = Mapping.anonymous(8192);
    assert.equal(mappedBytes(), before + 8192);
    mapping.close();
    mapping.close();
    assert.equal(mappedBytes(), before);
    assert.throws(
      () => mapping.view(0, 1),
      (error) => hasCode(error, "CLOSED"),
    );
  });
});
