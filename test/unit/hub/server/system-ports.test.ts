import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { privatePolicy } from "../../../../src/hub/limits/policy.js";
import { systemPorts } from "../../../../src/hub/server/system-ports.js";
import { FileWords } from "../../../../src/hub/words/file-words.js";
import { HubWords } from "../../../../src/hub/words/hub-words.js";

describe("the hub's clock", () => {
  it("stands at 1970 as long as the machine's is before it: no message takes a negative time", (t) => {
    const words = new HubWords(new FileWords(), privatePolicy(0), () => {});
    t.after(() => words.end(true));
    const { now } = systemPorts(words, () => {});
    const clock = t.mock.method(Date, "now", () => -86_400_000);
    assert.equal(now(), 0);
    clock.mock.mockImplementation(() => 7);
    assert.equal(now(), 7);
  });
});
