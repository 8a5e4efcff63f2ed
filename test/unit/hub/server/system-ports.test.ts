import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FileWords, systemPorts } from "../../../../src/hub/server/system-ports.js";

describe("the hub's clock", () => {
  it("stands at 1970 as long as the machine's is before it: no message takes a negative time", (t) => {
    const words = new FileWords();
    t.after(() => words.close());
    const { now } = systemPorts(words, () => {});
    const clock = t.mock.method(Date, "now", () => -86_400_000);
    assert.equal(now(), 0);
    clock.mock.mockImplementation(() => 7);
    assert.equal(now(), 7);
  });
});
