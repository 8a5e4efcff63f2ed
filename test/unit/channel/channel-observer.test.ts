/** An observer of a channel whose writer puts anything into its words. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { checkLeaks } from "../../support/leak-check.js";
import { ObservedChannel } from "../../support/observed-channel.js";

describe("an observer", () => {
  checkLeaks();

  it("looks at no more positions than there are slots, whatever the writer says", () => {
    using channel = new ObservedChannel();
    const { observer, slots } = channel;
    for (const published of [2n ** 53n - 1n, 2n ** 53n, 2n ** 62n, 2n ** 63n - 1n, -1n]) {
      channel.write("published", published);
      assert.deepEqual(observer.messages(slots, 0), []);
      assert.equal(observer.meanByteLength(slots), undefined);
      assert.equal(observer.statistics().committed, 0);
      assert.equal(observer.slotUse(slots).slots, slots);
    }
  });
});
