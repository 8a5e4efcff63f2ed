/**
 * The two sides of a demo, one of which is interrupted, killed or missing, and wrong usage of its
 * roles.
 */
import assert from "node:assert/strict";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { CliRig, eventually } from "./cli-rig.js";
import { assertNothingLeft } from "./demo-rig.js";
import {
  assertFailed,
  demos,
  names,
  otherOf,
  Pair,
  placeIn,
  SIDES,
  someNames,
  start,
  WAITS,
} from "./demo-sides.js";

describe("a side of a demo in two terminals", () => {
  for (const name of someNames) {
    for (const side of SIDES) {
      it(`${name}: Ctrl-C ends a ${side} that waits, and leaves nothing behind`, async () => {
        await using rig = await CliRig.open();
        const alone = start(rig, name, side);
        await alone.sayer(WAITS);
        alone.child.kill("SIGINT");
        const { code, stderr } = await alone.outcome;
        assert.deepEqual([code, stderr], [130, "Interrupted.\n"]);
        await assertNothingLeft(rig);
      });

      it(`${name}: SIGKILL of the ${side} in the middle ends both`, async () => {
        await using rig = await CliRig.open();
        await using pair = await Pair.inTheMiddle(rig, name);
        process.kill(await pair.pidOf(side), "SIGKILL");
        assertFailed(await pair[side].outcome, "PEER_GONE");
        pair.goOn();
        await pair.assertOtherEnds(side);
        await eventually("nothing is left where they met", async () =>
          (await readdir(rig.folder)).every((file) => !file.startsWith("meet")) ? true : undefined,
        );
      });
    }

    it(`${name}: Ctrl-C of one side in the middle ends both`, async () => {
      await using rig = await CliRig.open();
      await using pair = await Pair.inTheMiddle(rig, name);
      const side = otherOf(demos[name]?.side ?? "consumer");
      pair[side].child.kill("SIGINT");
      const { code, stderr } = await pair[side].outcome;
      assert.deepEqual([code, stderr], [130, "Interrupted.\n"]);
      pair.goOn();
      assertFailed(await pair[otherOf(side)].outcome, "PEER_GONE|STALE_HANDLE|BARRIER_BROKEN");
      await assertNothingLeft(rig);
    });
  }

  it("has a limit of 30 s for the other side, and says so", async () => {
    await using rig = await CliRig.open();
    const alone = names.flatMap((name) =>
      SIDES.map((side) => ({
        what: `${name} ${side}`,
        // Each at a place of its own.
        outcome: rig.start("demo", name, side, placeIn(rig, name).concat(`-${name}-${side}`))
          .outcome,
      })),
    );
    for (const { what, outcome } of alone) {
      const ended = await outcome;
      assertFailed(ended, "TIMEOUT");
      assert.match(ended.stderr, /within 30( s|000 ms)/, what);
    }
    await assertNothingLeft(rig);
  });

  it("does not replace a file that is not a socket", async () => {
    await using rig = await CliRig.open();
    await writeFile(rig.path("meet"), "precious");
    for (const name of names.filter((name) => name !== "ring")) {
      assertFailed(await start(rig, name, "producer").outcome, "FILE_EXISTS");
      assert.equal(await readFile(rig.path("meet"), "utf8"), "precious");
    }
    assert.deepEqual(await readdir(rig.folder), ["meet"]);
  });

  it("names the roles if the role is wrong, and the usage if the place is missing", async () => {
    await using rig = await CliRig.open();
    assert.match(
      await rig.fails("USAGE", "demo", "vmm", "observer", "x"),
      /demo vmm has no role "observer"; its roles are producer, consumer\./,
    );
    assert.match(
      await rig.fails("USAGE", "demo", "exchange", "producer", "x"),
      /demo exchange has no role "producer"; its role is rank\./,
    );
    for (const name of ["fork", "share", "crash"])
      assert.match(
        await rig.fails("USAGE", "demo", name, "producer", "x"),
        new RegExp(`demo ${name} has no roles; the demos with roles are pool, .+, exchange, `),
      );
    assert.match(
      await rig.fails("USAGE", "demo", "vmm", "consumer"),
      /consumer needs a PATH where both sides meet: cuda-ipc demo vmm consumer PATH\./,
    );
    assert.match(
      await rig.fails("USAGE", "demo", "ring", "producer"),
      /producer needs a NAME where both sides meet: cuda-ipc demo ring producer NAME\./,
    );
    await rig.fails("USAGE", "demo", "vmm", "consumer", "");
    await rig.fails("USAGE", "demo", "vmm", "consumer", "x", "y");
    assert.deepEqual(await readdir(rig.folder), []);
  });

  it("is shown in the help", async () => {
    await using rig = await CliRig.open();
    const help = await rig.ok("demo", "--help");
    assert.equal(await rig.ok("help", "demo"), help);
    assert.match(help, /\$ cuda-ipc demo vmm producer .+\n +\$ cuda-ipc demo vmm consumer /);
    for (const name of names)
      assert.match(help.slice(help.indexOf("In two terminals")), RegExp(name));
  });
});
