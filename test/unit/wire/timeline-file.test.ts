import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  LINE_BYTES,
  lineAt,
  poisonFile,
  stateOf,
  storeValue,
} from "../../../src/base/timeline-line.js";
import { Mapping } from "../../../src/os/mapping.js";
import { createMemoryFile } from "../../../src/os/memory-file.js";
import { OwnMemory, UntrustedWords } from "../../../src/os/untrusted-words.js";
import { checkLeaks } from "../../support/leak-check.js";

const LINE = 128;

describe("poisonFile", () => {
  checkLeaks();

  it("ends one timeline at the value it had reached, and no other", () => {
    using memory = createMemoryFile("timelines", 4096);
    using mapping = Mapping.shared(memory, 4096, "read-write");
    const words = new BigInt64Array(mapping.view(0, 4096).buffer);
    storeValue(lineAt(words, LINE - 64), 3n);
    storeValue(lineAt(words, LINE), 7n);
    storeValue(lineAt(words, LINE + 64), 9n);
    using ownMemory = new OwnMemory();
    for (let times = 0; times < 2; times += 1) {
      using line = new UntrustedWords(
        { fd: memory, byteOffset: LINE, byteLength: LINE_BYTES },
        ownMemory,
      );
      poisonFile(line);
    }
    const states = [-64, 0, 64].map((step) => stateOf(lineAt(words, LINE + step)));
    assert.deepEqual(states, [
      { value: 3n, ended: false },
      { value: 7n, ended: true },
      { value: 9n, ended: false },
    ]);
  });
});
