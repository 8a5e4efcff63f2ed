import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { interceptLibc } from "../../../src/ffi/intercept-libc.js";
import { wordsFrom } from "../../../src/os/file-calls.js";
import { Mapping } from "../../../src/os/mapping.js";
import { createMemoryFile } from "../../../src/os/memory-file.js";
import { lineAt, poisonFile, stateOf, storeValue } from "../../../src/wire/timeline-line.js";
import { checkLeaks } from "../../support/leak-check.js";

const LINE = 128;

describe("poisonFile", () => {
  checkLeaks();

  it("ends a timeline with what it had reached, maps nothing, and its neighbours go on", () => {
    using memory = createMemoryFile("timelines", 4096);
    using mapping = Mapping.shared(memory, 4096, "read-write");
    const words = new BigInt64Array(mapping.view(0, 4096).buffer);
    storeValue(lineAt(words, LINE - 64), 3n);
    storeValue(lineAt(words, LINE), 7n);
    storeValue(lineAt(words, LINE + 64), 9n);
    const calls: string[] = [];
    const undo = interceptLibc((call) => {
      calls.push(call);
      return undefined;
    });
    try {
      poisonFile(wordsFrom(memory, LINE));
      poisonFile(wordsFrom(memory, LINE));
    } finally {
      undo();
    }
    assert.ok(!calls.includes("mmap"));
    const states = [-64, 0, 64].map((step) => stateOf(lineAt(words, LINE + step)));
    assert.deepEqual(states, [
      { value: 3n, ended: false },
      { value: 7n, ended: true },
      { value: 9n, ended: false },
    ]);
  });
});
