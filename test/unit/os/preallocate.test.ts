import assert from "node:assert/strict";
import { fstatSync, readFileSync, writeSync } from "node:fs";
import { constants } from "node:os";
import { describe, it } from "node:test";
import { Deadline } from "../../../src/base/deadline.js";
import { hasCode } from "../../../src/base/errors.js";
import { interceptLibc } from "../../../src/ffi/intercept-libc.js";
import { createMemoryFile } from "../../../src/os/memory-file.js";
import type { OwnedFd } from "../../../src/os/owned-fd.js";
import { type PreallocateOptions, preallocateFile } from "../../../src/os/preallocate.js";
import { checkLeaks } from "../../support/leak-check.js";

const { errno } = constants;
const MiB = 1024 * 1024;
const BLOCK_BYTES = 512;

function options(more: Partial<PreallocateOptions> = {}): PreallocateOptions {
  return { name: "frame", deadline: new Deadline("create", {}, Number.POSITIVE_INFINITY), ...more };
}

function takenBytes(fd: OwnedFd): number {
  return fstatSync(fd.number).blocks * BLOCK_BYTES;
}

/** Makes the calls of `fallocate` fail with these errnos in turn; with undefined a call works. */
function failing(errnos: readonly (number | undefined)[]): Disposable {
  const left = [...errnos];
  const undo = interceptLibc((call) => (call === "fallocate" ? left.shift() : undefined));
  return { [Symbol.dispose]: undo };
}

describe("preallocateFile", () => {
  checkLeaks();

  it("takes all pages of the file in pieces, and keeps its content", async () => {
    const byteLength = 32 * MiB + 4096;
    using file = createMemoryFile("test", byteLength);
    writeSync(file.number, "first", 0);
    assert.ok(takenBytes(file) < byteLength);
    const rest: number[] = [];
    await preallocateFile(file, byteLength, options({ onPiece: (bytes) => rest.push(bytes) }));
    assert.ok(takenBytes(file) >= byteLength);
    assert.deepEqual(rest, [16 * MiB + 4096, 4096]);
    const content = readFileSync(`/proc/self/fd/${file.number}`);
    assert.equal(content.length, byteLength);
    assert.equal(content.subarray(0, 6).toString(), "first\0");
  });

  for (const code of ["ENOSPC", "ENOMEM"] as const) {
    it(`throws OUT_OF_MEMORY for ${code}, with the name and how far it came`, async () => {
      using file = createMemoryFile("test", 32 * MiB);
      using _ = failing([undefined, errno[code]]);
      await assert.rejects(preallocateFile(file, 32 * MiB, options()), {
        code: "OUT_OF_MEMORY",
        errnoName: code,
        message:
          'Cannot create "frame": only 16777216 of its 33554432 bytes could be preallocated: ' +
          `fallocate failed with ${code}`,
      });
    });
  }

  it("repeats a piece that a signal interrupted", async () => {
    using file = createMemoryFile("test", 4096);
    using _ = failing([errno.EINTR, errno.EINTR]);
    await preallocateFile(file, 4096, options());
    assert.ok(takenBytes(file) > 0);
  });

  it("stops between pieces if it is aborted", async () => {
    using file = createMemoryFile("test", 48 * MiB);
    const controller = new AbortController();
    const deadline = new Deadline(
      "create",
      { signal: controller.signal },
      Number.POSITIVE_INFINITY,
    );
    const undo = interceptLibc((call, [, , byteOffset]) => {
      if (call === "fallocate" && byteOffset === 16 * MiB) controller.abort();
      return undefined;
    });
    try {
      await assert.rejects(preallocateFile(file, 48 * MiB, options({ deadline })), (error) =>
        hasCode(error, "ABORTED"),
      );
    } finally {
      undo();
    }
    assert.equal(takenBytes(file), 32 * MiB);
  });

  it("does nothing once the time is up", async () => {
    using file = createMemoryFile("test", 4096);
    const deadline = new Deadline("create", { timeoutMs: 0 }, Number.POSITIVE_INFINITY);
    await assert.rejects(preallocateFile(file, 4096, options({ deadline })), (error) =>
      hasCode(error, "TIMEOUT"),
    );
    assert.equal(takenBytes(file), 0);
  });
});
