import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect } from "../../../../src/client/connect.js";
import type { Hub } from "../../../../src/client/hub.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { results } from "../../../support/messages.js";
import { obliging, ScriptedHub } from "../../../support/scripted-hub.js";
import { TestFolder } from "../../../support/test-folder.js";
import { until } from "../../../support/until.js";

describe("put() that is aborted while the hub publishes", () => {
  checkLeaks();

  it("takes back its own object only, whatever has the name by then", async () => {
    using folder = new TestFolder();
    const create = () => ({ object: 1, lease: 601 });
    const inspect = () => results.inspect[0];
    using scripted = new ScriptedHub(
      folder.socket,
      obliging({ create, inspect, publish: () => undefined }),
    );
    await using hub = await connect({ socket: folder.socket, start: false, device: "host" });
    const aborted = new AbortController();
    const putting = hub.put("frame", new Uint8Array(4), { signal: aborted.signal });
    await scripted.heard("publish");
    aborted.abort();
    await assert.rejects(putting, { code: "ABORTED" });
    const { name, object } = await scripted.heard("remove");
    assert.deepEqual({ name, object }, { name: "frame", object: 1 });
  });
});

const REPLACING = {
  "put()": (hub: Hub, signal?: AbortSignal) =>
    hub.put("frame", new Uint8Array(4), { replace: true, signal }),
  "createChannel()": (hub: Hub, signal?: AbortSignal) =>
    hub.createChannel("frame", { dtype: "uint8", shape: [4], replace: true, signal }),
  "createTimeline()": (hub: Hub, signal?: AbortSignal) =>
    hub.createTimeline("frame", { replace: true, signal }),
};

describe("a call with `replace` that is aborted while the hub publishes", () => {
  checkLeaks();

  for (const [name, make] of Object.entries(REPLACING)) {
    it(`keeps the name until the next object has it: ${name}`, async () => {
      using folder = new TestFolder();
      let objects = 0;
      let publishes = 0;
      using scripted = new ScriptedHub(
        folder.socket,
        obliging({
          create: () => {
            objects += 1;
            return { object: objects, lease: 600 + objects };
          },
          publish: () => {
            publishes += 1;
            return publishes === 1 ? undefined : {};
          },
        }),
      );
      await using hub = await connect({ socket: folder.socket, start: false, device: "host" });
      const aborted = new AbortController();
      const making = make(hub, aborted.signal);
      await scripted.heard("publish");
      aborted.abort();
      await assert.rejects(making, { code: "ABORTED" });
      await until("the hub is asked again", () => publishes === 2);
      assert.deepEqual(released(scripted), []);
      await make(hub);
      await until("the first one is released", () => released(scripted).length === 1);
      assert.deepEqual(released(scripted), [601]);
    });

    it(`is given back if the hub refuses it after all: ${name}`, async () => {
      using folder = new TestFolder();
      let publishes = 0;
      using scripted = new ScriptedHub(
        folder.socket,
        obliging({
          create: () => ({ object: 1, lease: 601 }),
          publish: () => {
            publishes += 1;
            return publishes === 1 ? undefined : { code: "NAME_TAKEN" };
          },
        }),
      );
      await using hub = await connect({ socket: folder.socket, start: false, device: "host" });
      const aborted = new AbortController();
      const making = make(hub, aborted.signal);
      await scripted.heard("publish");
      aborted.abort();
      await assert.rejects(making, { code: "ABORTED" });
      await until("it is released", () => released(scripted).length === 1);
    });
  }
});

function released(scripted: ScriptedHub): unknown[] {
  return scripted.connections.flatMap(({ heard }) =>
    heard.filter(({ op }) => op === "release").map(({ lease }) => lease),
  );
}
