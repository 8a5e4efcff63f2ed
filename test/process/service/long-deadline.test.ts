/** A deadline that is further away than a timer can be: 24.8 days. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { serve } from "../../../src/service/service.js";
import { connectService } from "../../../src/service/service-client.js";
import { checkLeaks } from "../../support/leak-check.js";
import { MESSAGE, SERVICE, ServiceRig } from "./service-rig.js";

describe("a request with a deadline of 100 days", () => {
  let rig: ServiceRig;
  checkLeaks(async () => rig[Symbol.asyncDispose]());
  beforeEach(async () => {
    rig = await ServiceRig.start();
  });

  it("is not given up before", async (t) => {
    let begin = (_: AbortSignal) => {};
    const begun = new Promise<AbortSignal>((resolve) => {
      begin = resolve;
    });
    let finish = () => {};
    const finished = new Promise<undefined>((resolve) => {
      finish = () => resolve(undefined);
    });
    let requests = 0;
    const options = { request: MESSAGE } as const;
    await using service = await serve(await rig.connect(), SERVICE, options, ({ signal }) => {
      requests += 1;
      if (requests === 1) return undefined;
      begin(signal);
      return finished;
    });
    await using client = connectService(await rig.connect(), SERVICE);
    (await client.request(undefined)).release();
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const waiting = client.request(undefined, { timeoutMs: 100 * 24 * 3600 * 1000 });
    const signal = await begun;
    t.mock.timers.tick(2 ** 31);
    t.mock.timers.tick(2 ** 31);
    t.mock.timers.reset();
    assert.equal(signal.aborted, false);
    finish();
    (await waiting).release();
    assert.equal(service.answered, 2);
  });
});
