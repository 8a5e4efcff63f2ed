/**
 * The two sides of a demo, each started by a command of its own as in two terminals: in both orders,
 * after a killed producer, and with a second producer.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { describe, it } from "node:test";
import { saidIn, terminalLines } from "../../docs/example-output.js";
import { nightly } from "../../support/random.js";
import { CliRig, eventually } from "./cli-rig.js";
import { assertNothingLeft } from "./demo-rig.js";
import {
  assertDone,
  assertFailed,
  HANDLE_FILES,
  names,
  otherOf,
  SIDES,
  someNames,
  start,
  WAITS,
} from "./demo-sides.js";

describe("a demo in two terminals", () => {
  for (const [i, name] of names.entries()) {
    for (const side of nightly ? SIDES : [SIDES[i % SIDES.length] ?? "producer"]) {
      it(`${name} works if the ${side} starts first, and leaves nothing behind`, async () => {
        await using rig = await CliRig.open();
        const first = start(rig, name, side);
        await first.sayer(WAITS);
        const second = start(rig, name, otherOf(side));
        const sides = { [side]: first, [otherOf(side)]: second };
        for (const [side, { outcome }] of Object.entries(sides)) {
          const ended = await outcome;
          assertDone(ended);
          const [lines, promised] = [saidIn(ended.stdout), terminalLines(name, side)];
          assert.equal(lines.length, promised.length, ended.stdout);
          for (const [i, line] of lines.entries()) assert.match(line, promised[i] ?? /^$/);
        }
        await assertNothingLeft(rig);
      });
    }
  }

  for (const name of someNames) {
    it(`${name} works after a producer was killed, whatever it left`, async () => {
      await using rig = await CliRig.open();
      const killed = start(rig, name, "producer");
      const pid = await killed.sayer(WAITS);
      if (HANDLE_FILES.includes(name))
        await eventually("its handle file is there", () =>
          existsSync(rig.path("meet.json")) ? true : undefined,
        );
      process.kill(pid, "SIGKILL");
      assertFailed(await killed.outcome, "PEER_GONE");
      const consumer = start(rig, name, "consumer");
      await consumer.sayer(WAITS);
      const producer = start(rig, name, "producer");
      for (const { outcome } of [consumer, producer]) assertDone(await outcome);
      await assertNothingLeft(rig);
    });

    it(`${name} refuses a second producer, and the first goes on`, async () => {
      await using rig = await CliRig.open();
      const first = start(rig, name, "producer");
      await first.sayer(WAITS);
      const second = await start(rig, name, "producer").outcome;
      assertFailed(second, "NAME_TAKEN");
      const consumer = start(rig, name, "consumer");
      for (const { outcome } of [first, consumer]) assertDone(await outcome);
      await assertNothingLeft(rig);
    });
  }
});
