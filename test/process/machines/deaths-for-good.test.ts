/** A machine that is gone for good, and one that was only thought to be. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { TwoMachines } from "../../support/machines/two-machines.js";
import { until } from "../../support/until.js";

const limits = { goneMachineMs: 1000 };

it("the names of a machine that is gone leave NATS, its copies stay, and it may come back", {
  skip: skipWithoutEngines,
}, async () => {
  const announces = { args: ["--announce", "*"], limits };
  await using site = await TwoMachines.start(announces, { limits });
  const { one, other, hubOfOne, hubOfOther } = site;
  for (const name of ["copied", "never"])
    (await hubOfOne.put(name, Uint8Array.of(7), { lifetime: "pinned" })).close();
  await one.says('announced: "never"');
  (await hubOfOther.open("copied", { from: "any" })).close();
  await one.killBridge();
  await other.says('removed: 2 records of machine "one", gone for 1 s');
  await until("nobody knows the machine any more", async () => {
    const { machines } = await other.status();
    return machines.every(({ machine }) => machine !== "one");
  });
  (await hubOfOther.open("copied", { wait: false })).close();
  await assert.rejects(hubOfOther.open("never", { from: "any", wait: false }), {
    code: "NOT_FOUND",
  });
  const opening = hubOfOther.open("never", { from: "any", timeoutMs: 20_000, dtype: "uint8" });
  one.startBridge();
  using found = await opening;
  assert.deepEqual([...(await found.read())], [7]);
});
