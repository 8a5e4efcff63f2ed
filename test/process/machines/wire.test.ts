/** Two machines with a bad cable between them: what crosses it is whole and in order. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { describe, it } from "node:test";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { CABLE_DEVICE, type CableQuality, TestCable } from "../../support/machines/test-cable.js";
import { TestMachine } from "../../support/machines/test-machine.js";
import { TestNats } from "../../support/machines/test-nats.js";
import { TestNetwork } from "../../support/machines/test-network.js";
import { soon } from "../../support/until.js";

const isSkipped = skipWithoutEngines || TestNetwork.whyNot() || whyNoPython();
const BYTES = 4 * 1024 * 1024 + 3;
const MESSAGES = 50;

const qualities: Readonly<Record<string, CableQuality>> = {
  "carries packets of 1280 bytes at most": { mtu: 1280 },
  "delays, loses, repeats and reorders packets": {
    delayMs: 5,
    jitterMs: 5,
    loss: 0.005,
    duplicates: 0.01,
  },
};
/** Each fault alone, and more of it. */
const nightly: typeof qualities = {
  "delays packets by 40 ms": { delayMs: 40 },
  "loses and repeats packets": { loss: 0.01, duplicates: 0.02 },
  "lets packets overtake each other": { delayMs: 1, jitterMs: 5 },
};
const chosen = process.env.NIGHTLY === "1" ? { ...qualities, ...nightly } : qualities;

// WHY together: they mostly wait.
describe("a cable between two machines", { skip: isSkipped, concurrency: 2 }, () => {
  for (const [what, quality] of Object.entries(chosen))
    it(`that ${what} carries an array and a channel`, async () => {
      using network = new TestNetwork();
      await using nats = await TestNats.start(["-js"], network.address);
      const ends = [network.join(), network.join()] as const;
      await using _cable = await TestCable.lay(ends, quality);
      const networkInterface = CABLE_DEVICE;
      const [within, withinOther] = ends;
      const args = ["--announce", "*"];
      await using one = await TestMachine.start("one", nats, { args, within, networkInterface });
      await using other = await TestMachine.start("other", nats, {
        within: withinOther,
        networkInterface,
      });
      await using hubOfOne = await one.connect();
      await using hubOfOther = await other.connect();

      const values = Uint8Array.from({ length: BYTES }, (_, i) => (i * 31) % 251);
      using _original = await hubOfOne.put("grid", values);
      const opening = hubOfOther.open("grid", { from: "any", dtype: "uint8" });
      using copy = await soon("the copy is there", opening);
      assert.ok(Buffer.from(await copy.read()).equals(Buffer.from(values)));

      using writer = await hubOfOne.createChannel("frames", { byteLength: 100_000, slots: 4 });
      const joining = hubOfOther.openChannel("frames", { machine: "any", timeoutMs: 20_000 });
      using reader = await joining;
      const write = async () => {
        for (let i = 0; i < MESSAGES; i += 1) {
          const slot = await writer.loan({ timeoutMs: 20_000 });
          // Some go at once, and some in pieces.
          const byteLength = i % 3 === 0 ? 100_000 : 100;
          slot.bytes.fill(i);
          slot.commit({ byteLength });
        }
      };
      const read = async () => {
        for (let i = 0; i < MESSAGES; i += 1) {
          using message = await reader.next({ timeoutMs: 20_000 });
          assert.equal(message?.sequence, i);
          assert.ok(message.bytes.every((it) => it === i));
        }
      };
      await Promise.all([write(), read()]);
    });
});

function whyNoPython(): string | false {
  const python = process.env.PYTHON ?? "python3";
  const isHere = spawnSync(python, ["-c", "open('/dev/net/tun').close()"]).status === 0;
  return isHere ? false : "needs python3 and /dev/net/tun";
}
