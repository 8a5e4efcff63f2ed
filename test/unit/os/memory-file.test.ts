import assert from "node:assert/strict";
import { fchmodSync, fstatSync, ftruncateSync, openSync, readFileSync, writeSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { libc } from "../../../src/ffi/libc.js";
import { Mapping, mappedBytes } from "../../../src/os/mapping.js";
import {
  createConstantFile,
  createMemoryFile,
  inspectMemoryFile,
  reopenReadOnly,
  reopenWritable,
} from "../../../src/os/memory-file.js";
import { OwnedFd } from "../../../src/os/owned-fd.js";
import { checkLeaks } from "../../support/leak-check.js";
import { OddFds } from "../../support/odd-fds.js";
import { asOtherUser, skipUnlessRoot } from "../../support/other-user.js";
import { TestFolder } from "../../support/test-folder.js";

const F_ADD_SEALS = 1033;
const F_SEAL_FUTURE_WRITE = 16;
const SIZE_SEALS = 6;
const MFD_CLOEXEC_AND_SEALING = 3;
const FALLOC_FL_KEEP_SIZE = 1;

const F_SETSIG = 10;
const SIGURG = 23;
const F_SETLEASE = 1024;
const [F_RDLCK, F_WRLCK] = [0, 1];

/** Holds a lease on the file. The next process that opens it would wait until the lease ends. */
function leased(file: OwnedFd, lease: number): OwnedFd {
  const fd = new OwnedFd(openSync(`/proc/self/fd/${file.number}`, "r"));
  // The signal of a broken lease (SIGIO) would end this process.
  libc().fcntl(fd.number, F_SETSIG, SIGURG);
  assert.equal(libc().fcntl(fd.number, F_SETLEASE, lease), 0);
  return fd;
}

describe("a memory file with a lease", () => {
  checkLeaks();

  it("is opened for reading without a wait", () => {
    using file = createMemoryFile("test", 4096);
    using _ = leased(file, F_WRLCK);
    assert.throws(
      () => reopenReadOnly(file),
      (error) => hasCode(error, "SYSTEM_ERROR") && /EAGAIN/.test(String(error)),
    );
  });

  it("is opened for writing without a wait", () => {
    using file = createMemoryFile("test", 4096, { mode: 0o600 });
    using _ = leased(file, F_RDLCK);
    assert.throws(
      () => reopenWritable(file),
      (error) => hasCode(error, "SYSTEM_ERROR") && /EAGAIN/.test(String(error)),
    );
  });
});

describe("createMemoryFile", () => {
  checkLeaks();

  it("creates zeroed memory of exactly this size", () => {
    using fd = createMemoryFile("test", 5000);
    using mapping = Mapping.shared(fd, 5000, "read");
    const { dev, ino } = fstatSync(fd.number);
    assert.deepEqual(inspectMemoryFile(fd), {
      byteLength: 5000,
      sizeSealed: true,
      contentSealed: false,
      writable: true,
      inode: `${dev}:${ino}`,
      sealsClosed: true,
      othersMayWrite: false,
    });
    assert.ok(mapping.view(0, 5000).every((byte) => byte === 0));
  });

  it("creates memory that nobody can shrink or grow", () => {
    using fd = createMemoryFile("test", 4096);
    assert.throws(() => ftruncateSync(fd.number, 0), /EPERM/);
    assert.throws(() => ftruncateSync(fd.number, 8192), /EPERM/);
  });

  it("creates memory that two mappings share", () => {
    using fd = createMemoryFile("test", 4096);
    using one = Mapping.shared(fd, 4096, "read-write");
    using other = Mapping.shared(fd, 4096, "read");
    one.view(0, 4096)[100] = 7;
    assert.equal(other.view(0, 4096)[100], 7);
  });

  it("leaves nothing behind if the size is refused", () => {
    assert.throws(
      () => createMemoryFile("test", -1),
      (error) => hasCode(error, "SYSTEM_ERROR") && /EINVAL/.test(error.message),
    );
  });
});

describe("createConstantFile", () => {
  checkLeaks();

  it("holds bytes that nobody can change, not even its creator", () => {
    const content = Buffer.from("constant");
    using fd = createConstantFile("test", content);
    const { inode, ...facts } = inspectMemoryFile(fd);
    const seals = { sizeSealed: true, contentSealed: true, sealsClosed: true };
    assert.deepEqual(facts, { byteLength: 8, ...seals, writable: false, othersMayWrite: false });
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

  it("finds no seals on other files", () => {
    using fd = new OwnedFd(openSync("/dev/null", "r"));
    const { byteLength, sizeSealed, contentSealed, writable } = inspectMemoryFile(fd);
    assert.deepEqual([byteLength, sizeSealed, contentSealed, writable], [0, false, false, false]);
  });

  it("finds whether more seals can be added, which our own files never allow", () => {
    using strange = strangeFile();
    using own = createMemoryFile("test", 4096);
    assert.deepEqual(
      [inspectMemoryFile(strange).sealsClosed, inspectMemoryFile(own).sealsClosed],
      [false, true],
    );
    assert.equal(libc().fcntl(own.number, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
    assert.equal(libc().fcntl(strange.number, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
  });

  it("distinguishes descriptors of different files", () => {
    using one = createMemoryFile("test", 4096);
    using twin = reopenReadOnly(one);
    using other = createMemoryFile("test", 4096);
    assert.equal(inspectMemoryFile(twin).inode, inspectMemoryFile(one).inode);
    assert.notEqual(inspectMemoryFile(other).inode, inspectMemoryFile(one).inode);
  });
});

describe("reopenReadOnly", () => {
  checkLeaks();

  it("returns a descriptor that cannot be mapped writable or be made so", () => {
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

/** A memory file as a library creates it that knows nothing of modes. */
function strangeFile(): OwnedFd {
  const fd = new OwnedFd(libc().memfd_create("test", 3));
  ftruncateSync(fd.number, 4096);
  libc().fcntl(fd.number, F_ADD_SEALS, SIZE_SEALS);
  return fd;
}

/** What another user gets who reopens a read-only descriptor for writing. */
function stolen(fd: OwnedFd): string | OwnedFd {
  return asOtherUser(() => {
    try {
      return new OwnedFd(openSync(`/proc/self/fd/${fd.number}`, "r+"));
    } catch (error) {
      return (error as NodeJS.ErrnoException).code ?? "";
    }
  });
}

describe("memory files and another user", { skip: skipUnlessRoot }, () => {
  checkLeaks();

  it("cannot be opened for writing through a descriptor for reading", () => {
    const made = [createMemoryFile("test", 4096), createConstantFile("test", new Uint8Array(10))];
    for (const fd of made) {
      using readable = reopenReadOnly(fd);
      assert.equal(stolen(readable), "EACCES");
      assert.equal(
        asOtherUser(() => reopenWritable(readable)),
        undefined,
      );
      asOtherUser(() => reopenReadOnly(readable)).close();
      fd.close();
    }
  });

  it("can be reopened for writing by their owner without root", () => {
    using fd = asOtherUser(() => createMemoryFile("test", 4096));
    using readable = reopenReadOnly(fd);
    const opened = asOtherUser(() => reopenWritable(readable));
    assert.ok(opened !== undefined);
    writeSync(opened.number, Buffer.of(7), 0, 1, 0);
    opened.close();
    assert.equal(readFileSync(`/proc/self/fd/${fd.number}`)[0], 7);
  });

  it("can be opened for writing if a library left the mode open, which is detected", () => {
    using fd = strangeFile();
    using readable = reopenReadOnly(fd);
    const writable = stolen(readable);
    assert.ok(writable instanceof OwnedFd, String(writable));
    writable.close();
    for (const [mode, expected] of [
      [0o777, true],
      [0o664, true],
      [0o602, true],
      [0o755, false],
      [0o444, false],
    ] as const) {
      fchmodSync(fd.number, mode);
      assert.equal(inspectMemoryFile(readable).othersMayWrite, expected, mode.toString(8));
    }
  });
});

describe("reopenWritable", () => {
  checkLeaks();

  it("returns a writable descriptor for a read-only one", () => {
    using fd = createMemoryFile("test", 4096);
    using readable = reopenReadOnly(fd);
    using writable = reopenWritable(readable);
    assert.ok(writable !== undefined);
    using mapping = Mapping.shared(writable, 4096, "read-write");
    mapping.view(0, 1)[0] = 5;
    assert.equal(readFileSync(`/proc/self/fd/${fd.number}`)[0], 5);
    assert.equal(inspectMemoryFile(writable).writable, true);
  });

  it("returns none for content-sealed files and for other files", () => {
    using folder = new TestFolder();
    using constant = createConstantFile("test", new Uint8Array(10));
    using file = new OwnedFd(openSync(folder.file("file"), "w+", 0o600));
    assert.equal(reopenWritable(constant), undefined);
    assert.equal(reopenWritable(file), undefined);
  });
});

describe("inspectMemoryFile", () => {
  checkLeaks();

  it("refuses files that are not memory files, and memory files in huge pages", () => {
    using odd = new OddFds();
    const flaws = new Set(odd.all.map((fd) => inspectMemoryFile(fd).flaw));
    assert.deepEqual(
      flaws,
      new Set([
        "it is not a memory file (memfd)",
        undefined,
        "it lies in huge pages (MFD_HUGETLB)",
      ]),
    );
  });
});

describe("memory behind the end of a memory file", () => {
  checkLeaks();

  it("is found, although the size is sealed", () => {
    using fd = new OwnedFd(libc().memfd_create("test", MFD_CLOEXEC_AND_SEALING));
    assert.equal(libc().ftruncate(fd.number, 4096), 0);
    assert.equal(libc().fallocate(fd.number, FALLOC_FL_KEEP_SIZE, 0, 64 * 2 ** 20), 0);
    assert.equal(libc().fcntl(fd.number, F_ADD_SEALS, 7), 0);
    assert.match(inspectMemoryFile(fd).flaw ?? "", /^it has 4096 bytes, and memory of 67108864/);
  });

  it("is none if all of the file is used", () => {
    using fd = createMemoryFile("test", 12_288);
    assert.equal(libc().fallocate(fd.number, FALLOC_FL_KEEP_SIZE, 0, 12_288), 0);
    assert.equal(inspectMemoryFile(fd).flaw, undefined);
  });
});

describe("Mapping", () => {
  checkLeaks();

  it("gives views only inside the memory", () => {
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
