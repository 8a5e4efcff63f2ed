import assert from "node:assert/strict";
import { constants } from "node:os";
import { describe, it } from "node:test";
import { interceptLibc } from "../../../src/ffi/intercept-libc.js";
import { endTimeline } from "../../../src/hub/end-timeline.js";
import { withWords } from "../../../src/os/mapped-words.js";
import { createMemoryFile, reopenReadOnly } from "../../../src/os/memory-file.js";
import { type LineState, lineAt, stateOf, storeValue } from "../../../src/wire/timeline-line.js";
import { checkLeaks } from "../../support/leak-check.js";

const PLACE = 128;

describe("endTimeline", () => {
  checkLeaks();

  for (const [how, failure] of [
    ["by its memory", undefined],
    ["by its file where nothing more can be mapped", constants.errno.ENOMEM],
  ] as const) {
    it(`ends a timeline ${how}, with what it had reached, and its neighbours go on`, () => {
      using memory = createMemoryFile("timelines", 4096);
      withWords(memory, (words) => {
        storeValue(lineAt(words, PLACE - 64), 3n);
        storeValue(lineAt(words, PLACE), 7n);
        storeValue(lineAt(words, PLACE + 64), 9n);
      });
      const undo = interceptLibc((call) => (call === "mmap" ? failure : undefined));
      try {
        endTimeline(memory, PLACE);
        endTimeline(memory, PLACE);
      } finally {
        undo();
      }
      const states: LineState[] = [];
      withWords(memory, (words) => states.push(...[-64, 0, 64].map((step) => stateOf(lineAt(words, PLACE + step)))));
      assert.deepEqual(states, [
        { value: 3n, ended: false },
        { value: 7n, ended: true },
        { value: 9n, ended: false },
      ]);
    });
  }

  it("says why where neither works", () => {
    using memory = createMemoryFile("timelines", 4096);
    using readOnly = reopenReadOnly(memory);
    assert.throws(() => endTimeline(readOnly, PLACE), AggregateError);
  });
});
