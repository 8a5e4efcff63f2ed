/**
 * Many names of one machine. `NIGHTLY=1` announces 10,000, and lets their bridge restart, be killed,
 * and lose NATS.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { it } from "node:test";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import type { TestMachine } from "../../support/machines/test-machine.js";
import { TwoMachines } from "../../support/machines/two-machines.js";

const isNightly = process.env.NIGHTLY === "1";
const COUNT = isNightly ? 10_000 : 300;
const DEADLINE_MS = 600_000;
const BRIDGE_BYTES_MAX = 200 * 1024 * 1024;

interface Seen {
  readonly machines: readonly { readonly machine: string; readonly alive: boolean }[];
  readonly names: readonly { readonly name: string }[];
}

it(`${COUNT} names are seen and copied elsewhere, in little memory, whatever happens to their bridge`, {
  skip: skipWithoutEngines,
}, async () => {
  await using site = await TwoMachines.start();
  const { one, other, hubOfOne, hubOfOther, nats } = site;
  const endMs = performance.now() + DEADLINE_MS;
  const untilSeen = async (count: number) => {
    for (;;) {
      const { machines, names } = await statusOf(other);
      const isAlive = machines.some(({ machine, alive }) => machine === "one" && alive);
      if (isAlive && names.length === count) return;
      assert.ok(performance.now() < endMs, `${names.length} names are seen, wanted ${count}`);
    }
  };
  const timed = async (what: string, work: () => Promise<unknown>) => {
    const startMs = performance.now();
    await work();
    const ms = Math.round(performance.now() - startMs);
    const bytes = [one, other].map(({ bridgePid }) => peakBytes(bridgePid));
    console.log(`${what}: ${ms} ms, bridges of ${bytes.map((it) => it >> 20).join(" and ")} MiB`);
    for (const found of bytes) assert.ok(found < BRIDGE_BYTES_MAX, `${found} bytes`);
  };

  const arrays: Disposable[] = [];
  await timed(`${COUNT} names are put`, async () => {
    for (let at = 0; at < COUNT; at += 1)
      arrays.push(await hubOfOne.put(`many-${at}`, Uint8Array.of(7)));
  });
  await timed("they are seen", () => untilSeen(COUNT));
  await timed("bridge status", () => statusOf(other));
  for (const name of ["many-0", `many-${COUNT - 1}`]) {
    using copy = await hubOfOther.open(name, { from: "any", dtype: "uint8" });
    assert.deepEqual([...(await copy.read())], [7]);
  }
  if (isNightly) {
    const startNext = async () => {
      one.startBridge();
      await one.bridged();
      await untilSeen(COUNT);
    };
    one.signalBridge("SIGTERM");
    assert.equal(await one.bridgeEnded(), 0);
    await timed("the next one has announced them", startNext);
    await one.killBridge();
    await timed("the next one has taken them over", startNext);
    await timed("NATS has forgotten them, and knows them again", async () => {
      await nats.kill();
      await nats.resume();
      await one.says("NATS answers again");
      await untilSeen(COUNT);
    });
    await timed("ls", async () => {
      const { out } = await one.run("ls", "--json");
      assert.equal(JSON.parse(out).length, COUNT);
    });
  }
  for (const array of arrays) array[Symbol.dispose]();
  await timed("all are gone", () => untilSeen(0));
});

async function statusOf(machine: TestMachine): Promise<Seen> {
  const { code, out, error } = await machine.run("bridge", "status", "--json");
  assert.equal(code, 0, error);
  return JSON.parse(out);
}

function peakBytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
}
