import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { replyName, requestName } from "../../../src/service/service-names.js";
import { servicesAmong } from "../../../src/watch/watched-services.js";
import { checkLeaks } from "../../support/leak-check.js";
import { channelOf } from "../../support/messages.js";
import { ObservedChannel } from "../../support/observed-channel.js";
import { watchedObject } from "./samples.js";

describe("the services of a hub", () => {
  checkLeaks();

  it("are shown although the words of a channel with such a name make no sense", () => {
    using replies = new ObservedChannel();
    using requests = new ObservedChannel();
    const reply = replyName("resize", "w1", 1);
    const objects = [reply, requestName(reply)].map((name, object) =>
      watchedObject({ name, object, descriptor: channelOf({}) }),
    );
    const look = () =>
      servicesAmong(objects, (object) => (object === 0 ? replies : requests).observer);
    const [before] = look();
    for (const channel of [replies, requests]) {
      channel.write("state", 9n);
      const [service] = look();
      assert.deepEqual(service, before);
      channel.write("state", 1n);
    }
  });
});
