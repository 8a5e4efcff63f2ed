/**
 * Each part ends at each step of a fetch. Whatever comes of it: the open ends in time, what is
 * published is whole, and otherwise nothing is left.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Hub } from "../../../src/client/hub.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { TestMachine } from "../../support/machines/test-machine.js";
import { TestNats } from "../../support/machines/test-nats.js";
import { soon, until } from "../../support/until.js";

const BYTES = 128 * 1024 * 1024;
const LAST = 77;
/** How an open may end if a part ends. */
const CODES = ["PEER_GONE", "BRIDGE_UNAVAILABLE", "HUB_GONE", "NATS_UNAVAILABLE", "CLOSED"];

interface Site {
  readonly nats: TestNats;
  readonly one: TestMachine;
  readonly other: TestMachine;
}

/** What ends, and comes back. */
const parts: Readonly<Record<string, (site: Site) => Promise<void>>> = {
  "the bridge that sends": async ({ one }) => {
    await one.killBridge();
    one.startBridge();
  },
  "the bridge that receives": async ({ other }) => {
    await other.killBridge();
    other.startBridge();
  },
  "the hub that receives": async ({ other }) => other.hub.kill("SIGKILL"),
  NATS: async ({ nats }) => {
    await nats.kill();
    await nats.resume();
  },
};

/** The share of the bytes that have come when the part ends. Undefined: the open has just begun. */
const steps: Readonly<Record<string, number | undefined>> = {
  "as it begins": undefined,
  "after the first bytes": 0,
  "when half has come": 0.5,
  "shortly before its end": 0.9,
};
/** NATS and links give up in 20 s, a machine may return in 15 s, and the copy then takes a while. */
const LATE_MS = 120_000;

const isSkipped =
  process.env.NIGHTLY === "1"
    ? skipWithoutEngines
    : "needs NIGHTLY=1; steps.test.ts and deaths.test.ts try the same on small arrays";

// WHY together: they mostly wait.
describe("a fetch", { skip: isSkipped, concurrency: 2 }, () => {
  for (const [part, end] of Object.entries(parts))
    it(`is whole or absent if ${part} is killed, whenever that is`, async () => {
      await using nats = await TestNats.start();
      await using one = await TestMachine.start("one", nats, { args: ["--announce", "*"] });
      await using other = await TestMachine.start("other", nats);
      await using hubOfOne = await one.connect();
      await using hubOfOther = await other.connect();
      const values = new Uint8Array(BYTES).fill(1);
      values[BYTES - 1] = LAST;
      (await hubOfOne.put("large", values, { lifetime: "pinned" })).close();
      await one.says('announced: "large"');
      for (const [step, share] of Object.entries(steps)) {
        const opening = hubOfOther.open("large", { from: "any", dtype: "uint8" });
        opening.catch(() => {});
        if (share !== undefined) await hasCome(other, opening, share);
        await end({ nats, one, other });
        const outcome = await soon(
          `the open ends (${step})`,
          Promise.allSettled([opening]),
          LATE_MS,
        );
        const [{ status }] = outcome;
        if (outcome[0].status === "fulfilled") outcome[0].value.close();
        else assert.ok(CODES.includes(outcome[0].reason.code), String(outcome[0].reason));
        await wholeOrAbsent(hubOfOther, status === "fulfilled");
        // The next attempt succeeds, whatever the last one left.
        await Promise.all([one.bridged(), other.bridged()]);
        const again = hubOfOther.open("large", { from: "any", dtype: "uint8" });
        (await soon("it is there in the end", again, LATE_MS)).close();
        await wholeOrAbsent(hubOfOther, true);
        await hubOfOther.remove("large");
      }
    });
});

/** Until this share of the bytes has come, or all. */
async function hasCome(
  machine: TestMachine,
  opening: Promise<unknown>,
  share: number,
): Promise<void> {
  let isOver = false;
  opening.then(
    () => {
      isOver = true;
    },
    () => {
      isOver = true;
    },
  );
  await until(`${share} of it has come`, async () => {
    const [fetch] = (await machine.status()).fetches;
    return isOver || (fetch !== undefined && fetch.doneBytes > share * BYTES);
  });
}

async function wholeOrAbsent(hub: Hub, mustBeThere: boolean): Promise<void> {
  await until("nothing is half done", async () =>
    (await hub.list()).every(({ published }) => published),
  );
  const [found] = await hub.list();
  if (found === undefined) return assert.equal(mustBeThere, false, "it is absent");
  using copy = await hub.open("large", { dtype: "uint8", wait: false });
  const bytes = await copy.read();
  assert.equal(bytes[BYTES - 1], LAST);
  assert.equal(Buffer.from(bytes.buffer).indexOf(0), -1);
}
