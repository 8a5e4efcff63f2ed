import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import type { Hub } from "../../../src/client/hub.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";

const ARRAY = { dtype: "uint8", shape: [1] } as const;

type Make = (hub: Hub, signal?: AbortSignal) => Promise<unknown>;

const makers: Readonly<Record<string, Make>> = {
  "put()": (hub, signal) => hub.put("x", Uint8Array.of(1), { replace: true, signal }),
  "createChannel()": (hub, signal) => hub.createChannel("x", { ...ARRAY, replace: true, signal }),
  "createTimeline()": (hub, signal) => hub.createTimeline("x", { replace: true, signal }),
};

describe("a call with `replace` that is aborted", () => {
  checkLeaks();

  for (const [name, make] of Object.entries(makers)) {
    it(`leaves the name to the old object or the new one: ${name} at each turn`, async () => {
      await using testHub = await TestHub.start();
      await using other = await testHub.connect();
      await using hub = await testHub.connect();
      await make(hub);
      let wasAborted = true;
      for (let turns = 0; wasAborted; turns = Math.ceil(1.3 * turns + 1)) {
        const aborted = new AbortController();
        let isOver = false;
        const made = make(hub, aborted.signal).then(
          () => true,
          (error: unknown) => {
            assert.ok(hasCode(error, "ABORTED"), String(error));
            return false;
          },
        );
        void made.then(() => {
          isOver = true;
        });
        for (let turn = 0; turn < turns && !isOver; turn += 1)
          await new Promise((resolve) => setImmediate(resolve));
        aborted.abort();
        wasAborted = !(await made);
        // NOT_FOUND if the name is free.
        await other.inspect("x");
      }
    });
  }
});
