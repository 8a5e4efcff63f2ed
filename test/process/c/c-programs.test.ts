/** The example programs in C, as a user runs them beside the command line. */
import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { connect } from "../../../src/index.js";
import { PeerProcess } from "../../support/peer-process.js";
import { CliRig } from "../cli/cli-rig.js";
import { CPrograms, skip } from "./c-programs.js";

describe("the example programs in C", { skip }, () => {
  let programs: CPrograms;
  before(() => {
    programs = new CPrograms();
  });

  const start = (rig: CliRig, program: string, ...args: string[]) =>
    new PeerProcess(programs.path(`examples/c/${program}.c`), args, rig.env);

  async function said(rig: CliRig, ...args: string[]): Promise<string> {
    await using tool = start(rig, "tool", ...args);
    const line = await tool.line();
    await tool.finish();
    return line;
  }

  it("share an array, show it, add to it and list it", async () => {
    await using rig = await CliRig.open();
    await using hub = await connect({ socket: rig.socket, device: "host" });
    await using maker = start(rig, "tool", "put", "frame", "1", "2.5", "-3");
    assert.equal(await maker.line(), "published frame");
    assert.equal(await said(rig, "show", "frame"), "1 2.5 -3");
    await using adder = start(rig, "tool", "add", "frame", "0.5");
    await adder.finish();
    using frame = await hub.open("frame", { dtype: "float32" });
    assert.deepEqual(await frame.read(), Float32Array.of(1.5, 3, -2.5));
    assert.equal(await said(rig, "list"), "frame\tarray\thost\t12 bytes\tpublished");
    await maker.finish();
  });

  it("show the arrays and the metadata of a bundle", async () => {
    await using rig = await CliRig.open();
    await using hub = await connect({ socket: rig.socket, device: "host" });
    const layouts = {
      w: { dtype: "float32", shape: [2, 3] },
      b: { dtype: "int8", shape: [] },
    } as const;
    using bundle = await hub.createBundle("weights", layouts, { metadata: { format: "pt" } });
    await bundle.publish();
    await using tool = start(rig, "tool", "arrays", "weights");
    for (const line of ["format: pt", "w\tfloat32[2,3]\t24 bytes", "b\tint8[]\t1 bytes"])
      assert.equal(await tool.line(), line);
    await tool.finish();
  });

  it("send lines to the command line, and receive its lines", async () => {
    await using rig = await CliRig.open();
    await using _hub = await connect({ socket: rig.socket, device: "host" });
    const receiving = rig.run("channel", "receive", "to-node", "--lines", "--count", "2");
    {
      await using sender = start(rig, "tool", "send", "to-node");
      await using observer = await connect({ socket: rig.socket, device: "host" });
      using channel = await observer.observeChannel("to-node", { timeoutMs: 30_000 });
      while (channel.statistics().readers.length === 0) await new Promise(setImmediate);
      sender.tell("first");
      sender.tell("second");
      await sender.finish();
    }
    const { code, stdout, stderr } = await receiving;
    assert.equal(code, 0, stderr);
    assert.equal(stdout, "first\nsecond\n");
  });

  it("run the daemon that `cuda-ipc demo daemon watch` watches and changes", async () => {
    await using rig = await CliRig.open();
    await using _hub = await connect({ socket: rig.socket, device: "host" });
    await using daemon = start(rig, "daemon");
    assert.match(await daemon.line(), /^daemon: owns "daemon-field", float32\[1024\]/);
    const watched = await rig.ok("demo", "daemon", "watch");
    assert.match(watched, /set the rate to 2\.5\n.+ sees step \d+: .+every element verified/);
    daemon.endInput();
    assert.match(await daemon.line(), /^daemon: ends as asked, after step \d+$/);
    await daemon.finish();
  });

  it("say how they are used, and what is wrong", async () => {
    await using rig = await CliRig.open();
    await using hub = await connect({ socket: rig.socket, device: "host" });
    await using wrong = start(rig, "tool", "dance");
    assert.match(await wrong.errors(), /^Usage: tool list/);
    using array = await hub.create("bytes", { dtype: "uint8", shape: [1] });
    await array.publish();
    await using other = start(rig, "tool", "show", "bytes");
    assert.equal(await other.errors(), "bytes is of uint8, wanted float32\n");
  });
});
