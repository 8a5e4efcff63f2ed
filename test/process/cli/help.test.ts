import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { packageVersion } from "../../../src/base/version.js";
import { CliRig } from "./cli-rig.js";

const commands = [
  "demo",
  "doctor",
  "put",
  "get",
  "ls",
  "inspect",
  "rm",
  "hub",
  "hub serve",
  "hub status",
  "hub restart",
  "hub stop",
  "channel send",
  "channel receive",
  "channel stat",
];

describe("cuda-ipc", () => {
  it("prints its version", async () => {
    await using rig = await CliRig.open();
    assert.equal(await rig.ok("--version"), `${packageVersion()}\n`);
  });

  it("explains itself: every command, the environment, the exit codes", async () => {
    await using rig = await CliRig.open();
    const help = await rig.ok("--help");
    for (const word of [
      ...commands.map((command) => command.split(" ")[0] ?? ""),
      "CUDA_IPC_SOCKET",
      "CUDA_IPC_DEVICE",
      "130",
    ]) {
      assert.ok(help.includes(word), word);
    }
  });

  for (const command of commands) {
    it(`explains ${command} with an example`, async () => {
      await using rig = await CliRig.open();
      const help = await rig.ok(...command.split(" "), "--help");
      assert.match(help, new RegExp(`^Usage: cuda-ipc ${command}`));
      assert.match(help, new RegExp(`\\$ cuda-ipc ${command}`));
    });
  }

  const wrong: readonly (readonly [string, ...string[]])[] = [
    ["no such command", "bogus"],
    ["no such option", "ls", "--bogus"],
    ["a missing argument", "put", "only-a-name"],
    ["an argument too many", "ls", "extra"],
    ["a format that is none", "put", "x", "file", "--format", "zip"],
    ["a dtype that is none", "put", "x", "file", "--dtype", "float3"],
    ["a shape that is none", "put", "x", "file", "--shape", "3,-1"],
    ["a count that is none", "demo", "--elements", "0"],
    ["no such demo", "demo", "bogus"],
    ["options that exclude each other", "hub", "serve", "--stay", "--idle-ms", "5"],
    ["standard input", "put", "x", "-"],
    ["standard input that is not cut", "channel", "send", "x"],
    ["two ways to cut it", "channel", "send", "x", "--lines", "--npy"],
    ["standard input by name", "channel", "send", "x", "-"],
    ["a channel that is there and told what it is", "channel", "send", "x", "--lines", "--resume", "--slots", "2"],
    ["more readers than places", "channel", "send", "x", "--lines", "--wait-readers", "3", "--readers-max", "2"],
    ["standard input again and again", "channel", "send", "x", "--lines", "--repeat", "2"],
    ["no slots", "channel", "send", "x", "--lines", "--slots", "0"],
    ["frames of no bytes", "channel", "send", "x", "--frames", "0"],
    ["a message of no bytes", "channel", "send", "x", "--shape", "0,3"],
    ["a message that no memory holds", "channel", "send", "x", "--shape", "1000000000,1000000000"],
    ["a size said twice", "channel", "send", "x", "--lines", "--byte-length", "5", "--shape", "5"],
    ["meta that is no JSON", "channel", "send", "x", "--lines", "--meta", "{"],
    ["a rate of nothing", "channel", "send", "x", "--lines", "--rate", "0"],
    ["a policy that is none", "channel", "send", "x", "--lines", "--when-full", "cry"],
    ["no messages", "channel", "receive", "x", "--count", "0"],
    ["a beginning that is none", "channel", "receive", "x", "--from", "now"],
    ["two things on standard output", "channel", "receive", "x", "--json", "--lines"],
    ["two numbers in a path", "channel", "receive", "x", "--output", "%d-%d"],
    ["an interval that is none", "channel", "stat", "x", "--interval", "0"],
  ];
  for (const [what, ...args] of wrong) {
    it(`refuses ${what} as wrong usage`, async () => {
      await using rig = await CliRig.open();
      await rig.fails("USAGE", ...args);
    });
  }

  it("refuses a number of a user that is none as wrong usage, whatever the command", async () => {
    await using rig = await CliRig.open();
    rig.env.CUDA_IPC_HUB_UID = "alice";
    for (const args of [["ls"], ["doctor"], ["hub", "status"]]) {
      assert.match(await rig.fails("USAGE", ...args), /CUDA_IPC_HUB_UID must be the number of a user, not "alice"/);
    }
    delete rig.env.CUDA_IPC_HUB_UID;
  });

  it("repeats no control characters of an argument", async () => {
    await using rig = await CliRig.open();
    for (const args of [["\u001b[2J\nls"], ["ls", "--\u009bx"], ["put", "x", "\u001b[2J\n\u202e"], ["demo", "a\nb"]]) {
      const { stdout, stderr } = await rig.run(...args);
      assert.equal(stdout, "");
      assert.match(stderr, /\\u00/);
      assert.match(stderr, /^error\[\w+\]: .+\n( {2}hint: .+\n)?$/);
      assert.doesNotMatch(stderr.replaceAll("\n", ""), /[\p{Cc}\p{Bidi_Control}]/u);
    }
    assert.match((await rig.run("lss")).stderr, /'lss'\n\(Did you mean ls\?\)\n/);
  });

  it("prints help and fails when it is told nothing", async () => {
    await using rig = await CliRig.open();
    const { code, stderr } = await rig.run();
    assert.equal(code, 2);
    assert.match(stderr, /^Usage: cuda-ipc/);
  });

  it("names the demos that there are", async () => {
    await using rig = await CliRig.open();
    assert.match(await rig.fails("USAGE", "demo", "bogus"), /there are: share, crash/);
  });
});
