import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { createMemoryFile } from "../../../src/os/memory-file.js";
import { OwnMemory, UntrustedWords } from "../../../src/os/untrusted-words.js";
import { checkLeaks } from "../../support/leak-check.js";

const WORD = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8);

describe("UntrustedWords", () => {
  checkLeaks();

  for (const byteOffset of [0, 4096, 65_536, 65_536 + 64, 1_000_000 * 64]) {
    it(`reads and writes words at byte ${byteOffset} of the file, and nothing else`, () => {
      using fd = createMemoryFile("test", byteOffset + 128);
      using ownMemory = new OwnMemory();
      using words = new UntrustedWords({ fd, byteOffset, byteLength: 64 }, ownMemory);
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

  it("throws if no page is left, where a store would end the process", () => {
    using fd = createMemoryFile("test", 4096);
    using ownMemory = new OwnMemory();
    using words = new UntrustedWords({ fd, byteOffset: 8192, byteLength: 64 }, ownMemory);
    assert.throws(
      () => words.write(0, WORD),
      (error) => hasCode(error, "SYSTEM_ERROR") && /EIO/.test(error.message),
    );
  });
});
