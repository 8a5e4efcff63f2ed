/** The demo `machines`: three hubs and bridges on one computer, and one of them dies. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { CliRig, eventually } from "./cli-rig.js";
import { assertNothingLeft, Demo, processesOf } from "./demo-rig.js";

describe("cuda-ipc demo machines", () => {
  it("shows an array and a channel crossing, and a machine dying", {
    skip: skipWithoutEngines,
  }, async () => {
    await using rig = await CliRig.open();
    const text = await rig.ok("demo", "machines", "-n", "20000");
    const steps = text.split("\n").map((line) => line.replace(/ +\d+ +/, ": ").trim());
    const at = (pattern: RegExp) => {
      const index = steps.findIndex((step) => pattern.test(step));
      assert.ok(index > 0, `not said: ${pattern}\n${text}`);
      return index;
    };
    const killed = at(
      /^demo: killed machine "a": (?=.*bridge \d)(?=.*hub \d)(?=.*keeper \d)(?=.*sender \d)/,
    );
    for (const name of ["b", "c"]) {
      const said = (words: string) => at(new RegExp(`^${name} (receiver|bridge): ${words}`));
      said('machine "[bc]" has a hub of its own');
      assert.ok(
        said('opened "weights" in .+: a copy from machine "a", 78.1 KiB verified') < killed,
      );
      assert.ok(said("read 100 messages in order, none missed: 7.6 MiB verified") < killed);
      assert.ok(said('knows after .+ that machine "a" is gone') > killed);
      const ended = said('channel "frames" ended after its last message: PEER_GONE');
      assert.ok(ended > killed);
      assert.ok(said('still has every element of "weights": 78.1 KiB verified') > ended);
      assert.ok(said('cannot open "unseen", which nobody had copied: PEER_GONE') > ended);
    }
    assert.match(text, /\nDone: every byte was verified, in .+\.\n$/);
    await assertNothingLeft(rig);
  });

  it("is skipped if an engine is missing, and says how to get each", async () => {
    await using rig = await CliRig.open();
    rig.env.PATH = rig.folder;
    delete rig.env.NATS_SERVER;
    rig.env.CUDA_IPC_UCX = "/no/libucp.so.0";
    const text = await rig.ok("demo", "machines");
    assert.match(text, /\nSkipped "machines": nats-server is neither in PATH nor .*pip install/);
    assert.match(text, / Cannot open UCX, tried .*\/no\/libucp.so.0.*pip install libucx-cu13/);
    assert.doesNotMatch(text, /Done/);
    await assertNothingLeft(rig);
  });

  it("fails, and says why, if nats-server cannot be started", {
    skip: skipWithoutEngines,
  }, async () => {
    await using rig = await CliRig.open();
    rig.env.NATS_SERVER = "/no/nats-server";
    const found = await rig.fails("PEER_GONE", "demo", "machines");
    assert.match(found, /without nats-server: .*ENOENT/);
    await assertNothingLeft(rig);
  });

  it("leaves no process and no file behind after Ctrl-C, and no process if it is killed", {
    skip: skipWithoutEngines,
  }, async () => {
    for (const signal of ["SIGINT", "SIGKILL"] as const) {
      await using rig = await CliRig.open();
      const demo = Demo.start(rig, "machines");
      const pid = await demo.sayer(/^shares "weights"/);
      assert.ok(processesOf(rig).includes(String(pid)));
      demo.child.kill(signal);
      if (signal === "SIGKILL") {
        await once(demo.child, "exit");
        await eventually("all end", () => (processesOf(rig).length === 0 ? true : undefined));
      } else {
        const { code, stderr } = await demo.outcome;
        assert.deepEqual([code, stderr], [130, "Interrupted.\n"]);
        await assertNothingLeft(rig);
      }
    }
  });
});
