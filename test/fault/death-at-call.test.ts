/**
 * A client dies or loses its connection before its n-th system call, for many n. The hub releases
 * everything that it held.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Actor } from "../support/actor.js";
import { checkLeaks } from "../support/leak-check.js";
import { TestHub } from "../support/test-hub.js";
import { until } from "../support/until.js";

const ENDS = new URL("./actors/ends-at-call.js", import.meta.url);
/** Each call takes a process, so the tests try only one call in this many. */
const STEP = 3;

interface Outcome {
  readonly code: string | null;
  readonly hit: string | null;
}

describe("a client that ends before its n-th system call", () => {
  checkLeaks();

  for (const [action, start] of [
    ["SIGKILL", 1],
    ["cut", 2],
  ] as const) {
    it(`leaves nothing on the hub (${action})`, async () => {
      await using testHub = await TestHub.start();
      await using other = await testHub.connect();
      const fds = testHub.fdCount();
      for (let n = start; ; n += STEP) {
        await using actor = new Actor(ENDS, { args: [testHub.socket, action, String(n)] });
        const outcome = action === "cut" ? ((await actor.says()) as Outcome) : undefined;
        const exit = await actor.exited();
        await until(`after call ${n} nothing is left on the hub`, async () => {
          const { objects, leases, clients } = await other.status();
          return objects + leases === 0 && clients === 1 && testHub.fdCount() === fds;
        });
        if (outcome === undefined ? exit !== "SIGKILL" : outcome.hit === null) {
          assert.equal(exit, 0);
          assert.ok(n > 20, "there are enough calls to die at");
          return;
        }
        if (outcome !== undefined)
          assert.ok([null, "HUB_GONE", "CLOSED"].includes(outcome.code), String(outcome.code));
      }
    });
  }
});
