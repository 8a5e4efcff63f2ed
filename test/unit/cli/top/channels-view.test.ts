import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { channelRow } from "../../../../src/cli/dashboard/page-rows.js";
import { channelsView } from "../../../../src/cli/top/channels-view.js";
import { lookAt } from "../../../../src/cli/top/view.js";
import { replyName, requestName } from "../../../../src/service/service-names.js";
import { snapshotOf, watchedChannel } from "../../watch/samples.js";

describe("the view of channels", () => {
  it("says which channels belong to a link of a service, as the dashboard's page does", () => {
    const reply = replyName("detect", "1abc", 3);
    const look = lookAt(snapshotOf(), undefined);
    const [nameColumn] = channelsView.columns;
    for (const [name, wanted] of [
      [reply, "service detect, link 3: replies"],
      [requestName(reply), "service detect, link 3: requests"],
      ["detect", "detect"],
      ["a:w", "a:w"],
    ] as const) {
      const channel = watchedChannel({ name });
      assert.equal(nameColumn?.text(channel, look), wanted);
      assert.equal(channelRow(channel, look).name, wanted);
      const unreadable = { object: 2, name, unreadable: "it is not watched" };
      assert.equal(channelRow(unreadable, look).name, wanted);
      assert.deepEqual(channelsView.details(channel, look)[0], ["name", name]);
    }
  });
});
