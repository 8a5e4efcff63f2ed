import assert from "node:assert/strict";
import { constants } from "node:os";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { Mapping } from "../../../src/os/mapping.js";
import { createMemoryFile } from "../../../src/os/memory-file.js";
import { openFdCount } from "../../../src/os/owned-fd.js";
import { failSystemCall } from "../../../src/testing/index.js";
import { checkLeaks } from "../../support/leak-check.js";

function work(): void {
  using file = createMemoryFile("whole", 4096);
  Mapping.shared(file, 4096, "read").close();
}

describe("failSystemCall", () => {
  checkLeaks();

  it("goes through every call that can fail, with an errno that it can give", () => {
    const failed: [string, string][] = [];
    for (let failAt = 1; ; failAt += 1) {
      const before = openFdCount();
      using failing = failSystemCall({ failAt });
      let found: unknown;
      try {
        work();
      } catch (error) {
        found = error;
      }
      assert.equal(openFdCount(), before);
      if (failing.failed === undefined) break;
      failed.push([failing.failed, (found as { errnoName: string }).errnoName]);
    }
    assert.deepEqual(failed, [
      ["memfd_create", "EMFILE"],
      ["ftruncate", "ENOMEM"],
      ["fcntl", "EBUSY"],
      ["mmap", "ENOMEM"],
      ["munmap", "ENOMEM"],
      ["close", "EIO"],
    ]);
  });

  it("counts only the calls that it is told to, and fails with what it is told to", () => {
    using failing = failSystemCall({ failAt: 2, only: ["ftruncate"], errno: constants.errno.ENOSPC });
    work();
    assert.deepEqual([failing.calls, failing.failed], [1, undefined]);
    assert.throws(work, (error) => hasCode(error, "DISK_FULL"));
    assert.equal(failing.failed, "ftruncate");
    work();
  });

  it("fails nothing once it is undone", () => {
    const failing = failSystemCall({ failAt: 1 });
    failing.undo();
    work();
    assert.deepEqual([failing.calls, failing.failed], [0, undefined]);
  });
});
