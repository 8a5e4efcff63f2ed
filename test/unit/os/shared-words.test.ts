import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { createMemoryFile } from "../../../src/os/memory-file.js";
import { OwnMemory } from "../../../src/os/own-memory.js";
import { SharedWords } from "../../../src/os/shared-words.js";
import { checkLeaks } from "../../support/leak-check.js";

const WORD = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8);

describe("SharedWords", () => {
  checkLeaks();

  for (const byteOffset of [0, 4096, 65_536, 65_536 + 64, 1_000_000 * 64]) {
    it(`reads and writes words at byte ${byteOffset} of the file, and nothing else`, () => {
      using fd = createMemoryFile("test", byteOffset + 128);
      using ownMemory = new OwnMemory();
      using words = new SharedWords({ fd, byteOffset, byteLength: 64 }, ownMemory);
      words.write(8, WORD);
      words.write(56, WORD);
      const found = new Uint8Array(8);
      words.read(8, found);
      assert.deepEqual(found, WORD);
      const content = readFileSync(`/proc/self/fd/${fd.number}`);
      assert.deepEqual([...content.subarray(byteOffset + 8, byteOffset + 16)], [...WORD]);
      assert.equal(
        content.reduce((sum, byte) => sum + byte, 0),
        2 * 36,
      );
    });
  }

  it("throws where there is no page to write to, which would end the process if it were a store", () => {
    using fd = createMemoryFile("test", 4096);
    using ownMemory = new OwnMemory();
    using words = new SharedWords({ fd, byteOffset: 8192, byteLength: 64 }, ownMemory);
    assert.throws(
      () => words.write(0, WORD),
      (error) => hasCode(error, "SYSTEM_ERROR") && /EIO/.test(error.message),
    );
  });
});
