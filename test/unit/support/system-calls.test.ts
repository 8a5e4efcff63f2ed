import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Mapping } from "../../../src/os/mapping.js";
import { createMemoryFile } from "../../../src/os/memory-file.js";
import { openFdCount } from "../../../src/os/owned-fd.js";
import { checkLeaks } from "../../support/leak-check.js";
import { atSystemCall } from "../../support/system-calls.js";

function work(): void {
  using file = createMemoryFile("whole", 4096);
  Mapping.shared(file, 4096, "read").close();
}

describe("atSystemCall()", () => {
  checkLeaks();

  it("reaches every call that can fail, with an errno that this call can give", () => {
    const failed: [string, string][] = [];
    for (let failAt = 1; ; failAt += 1) {
      const before = openFdCount();
      using nth = atSystemCall(failAt, ({ errnos }) => errnos[0]);
      let found: unknown;
      try {
        work();
      } catch (error) {
        found = error;
      }
      assert.equal(openFdCount(), before);
      if (nth.hit === undefined) break;
      failed.push([nth.hit.name, (found as { errnoName: string }).errnoName]);
    }
    assert.deepEqual(failed, [
      ["memfd_create", "EMFILE"],
      ["ftruncate", "ENOMEM"],
      ["fcntl", "EBUSY"],
      ["fchmod", "EROFS"],
      ["mmap", "ENOMEM"],
      ["munmap", "ENOMEM"],
      ["close", "EIO"],
    ]);
  });
});
