import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { packageVersion } from "../../../src/base/own-package.js";
import { tableOf } from "../../docs/markdown-tables.js";
import { someOf } from "../../support/random.js";
import { CliRig } from "./cli-rig.js";

const commands = [
  "demo",
  "doctor",
  "put",
  "get",
  "ls",
  "inspect",
  "rm",
  "gc",
  "metrics",
  "top",
  "hub",
  "hub serve",
  "hub status",
  "hub restart",
  "hub stop",
  "channel send",
  "channel receive",
  "channel stat",
  "bridge",
  "bridge status",
  "pull",
  "completion",
];

describe("cuda-ipc", () => {
  it("prints its version", async () => {
    await using rig = await CliRig.open();
    for (const flag of ["--version", "-v", "-V"])
      assert.equal(await rig.ok(flag), `${packageVersion()}\n`);
  });

  it("prints the help of the command that is named after help", async () => {
    await using rig = await CliRig.open();
    assert.match(await rig.ok("help"), /^Usage: cuda-ipc \[options\] \[command\]/);
    assert.equal(await rig.ok("help", "put"), await rig.ok("put", "--help"));
    assert.equal(await rig.ok("help", "hub", "serve"), await rig.ok("hub", "serve", "--help"));
    const wrong: readonly (readonly [RegExp, ...string[]])[] = [
      [/unknown command 'hbu'\n\(Did you mean hub\?\)\n/, "hbu"],
      [/unknown command 'srve'\n\(Did you mean serve\?\)\n/, "hub", "srve"],
      [/unknown command 'completee'\n\(Did you mean completion\?\)\n/, "completee"],
      [/unknown command '--version'\n/, "--", "--version"],
      [/put has no command "x"/, "put", "x"],
    ];
    for (const [message, ...words] of wrong)
      assert.match(await rig.fails("USAGE", "help", ...words), message);
  });

  it("lists every command, the environment and the exit codes", async () => {
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

  for (const command of someOf(commands, 6)) {
    it(`prints help for ${command} with an example`, async () => {
      await using rig = await CliRig.open();
      const help = await rig.ok(...command.split(" "), "--help");
      assert.match(help, new RegExp(`^Usage: cuda-ipc ${command}`));
      assert.match(help, new RegExp(`\\$ cuda-ipc ${command}`));
      assert.doesNotMatch(help, /\(default: [^)]*\)\s+\(default:/);
    });
  }

  const wrong: readonly (readonly [string, ...string[]])[] = [
    ["an unknown command", "bogus"],
    ["an unknown option", "ls", "--bogus"],
    ["a missing argument", "put", "only-a-name"],
    ["an extra argument", "inspect", "name", "extra"],
    ["an unknown format", "put", "x", "file", "--format", "zip"],
    ["a shard size of nothing", "get", "x", "folder", "--shard-size", "0"],
    ["shards of one array", "get", "x", "folder", "--shard-size", "1GiB", "--array", "a"],
    ["shards that are no safetensors", "get", "x", "f", "--shard-size", "5", "--format", "npy"],
    ["an unknown dtype", "put", "x", "file", "--dtype", "float3"],
    ["a malformed shape", "put", "x", "file", "--shape", "3,-1"],
    ["a count of 0", "demo", "--elements", "0"],
    ["an unknown demo", "demo", "bogus"],
    ["options that exclude each other", "hub", "serve", "--stay", "--idle-ms", "5"],
    ["standard input", "put", "x", "-"],
    ["standard input without a way to cut it", "channel", "send", "x"],
    ["two ways to cut standard input", "channel", "send", "x", "--lines", "--npy"],
    ['"-" for standard input', "channel", "send", "x", "-"],
    [
      "--resume with options of a new channel",
      "channel",
      "send",
      "x",
      "--lines",
      "--resume",
      "--slots",
      "2",
    ],
    [
      "--wait-readers above --readers-max",
      "channel",
      "send",
      "x",
      "--lines",
      "--wait-readers",
      "3",
      "--readers-max",
      "2",
    ],
    ["--repeat of standard input", "channel", "send", "x", "--lines", "--repeat", "2"],
    ["no slots", "channel", "send", "x", "--lines", "--slots", "0"],
    ["frames of no bytes", "channel", "send", "x", "--frames", "0"],
    ["a message of no bytes", "channel", "send", "x", "--shape", "0,3"],
    [
      "a message larger than any memory",
      "channel",
      "send",
      "x",
      "--shape",
      "1000000000,1000000000",
    ],
    [
      "--byte-length with --shape",
      "channel",
      "send",
      "x",
      "--lines",
      "--byte-length",
      "5",
      "--shape",
      "5",
    ],
    ["meta that is not JSON", "channel", "send", "x", "--lines", "--meta", "{"],
    ["a rate of 0", "channel", "send", "x", "--lines", "--rate", "0"],
    ["an unknown policy", "channel", "send", "x", "--lines", "--when-full", "cry"],
    ["no messages", "channel", "receive", "x", "--count", "0"],
    ["an unknown --from", "channel", "receive", "x", "--from", "now"],
    ["--json and messages on standard output", "channel", "receive", "x", "--json", "--lines"],
    ["two numbers in a path", "channel", "receive", "x", "--output", "%d-%d"],
    ["an interval of 0", "channel", "stat", "x", "--interval", "0"],
    ["a bridge without a NATS server", "bridge", "--nats", ""],
  ];
  for (const [what, ...args] of wrong) {
    it(`refuses ${what} as wrong usage`, async () => {
      await using rig = await CliRig.open();
      await rig.fails("USAGE", ...args);
    });
  }

  it("names the same range for a number that is too small and for one that is no number", async () => {
    await using rig = await CliRig.open();
    const smallest = {
      "1099511627776": ["demo", "-n"],
      "64": ["demo", "-p"],
      "65536": ["channel", "send", "x", "--lines", "--slots"],
    };
    for (const [largest, args] of Object.entries(smallest)) {
      for (const text of ["-1", "0", "1.5", "x"]) {
        const error = await rig.fails("USAGE", ...args, text);
        assert.ok(error.includes(`Give an integer, from 1 to ${largest}.`), error);
      }
    }
    const readers = ["channel", "send", "x", "--lines", "--wait-readers"];
    for (const text of ["-1", "65"])
      assert.match(await rig.fails("USAGE", ...readers, text), /Give an integer, from 0 to 64\./);
    const repeat = ["channel", "send", "x", "file", "--repeat"];
    for (const text of ["-1", "0"])
      assert.match(await rig.fails("USAGE", ...repeat, text), /Give an integer, 1 or more, or/);
  });

  it("is in README's table, command by command", async () => {
    await using rig = await CliRig.open();
    const [, listed = ""] = /^Commands:\n((?: {2}.*\n?)+)/m.exec(await rig.ok("--help")) ?? [];
    const names = [...listed.matchAll(/^ {2}([a-z]+)/gm)].map(([, name = ""]) => name);
    assert.ok(names.includes("channel") && names.length >= 9, listed);
    const table = tableOf(readFileSync("README.md", "utf8"), "On the command line");
    const said = table.map(([command = ""]) => command).join(", ");
    const missing = names.filter(
      (name) => name !== "help" && !new RegExp(`(^|, |cuda-ipc )${name}\\b`).test(said),
    );
    assert.deepEqual(missing, []);
  });

  it("refuses a wrong CUDA_IPC_HUB_UID as wrong usage, whatever the command", async () => {
    await using rig = await CliRig.open();
    rig.env.CUDA_IPC_HUB_UID = "alice";
    for (const args of [["ls"], ["doctor"], ["hub", "status"]]) {
      assert.match(
        await rig.fails("USAGE", ...args),
        /CUDA_IPC_HUB_UID must be the number of a user, not "alice"/,
      );
    }
    delete rig.env.CUDA_IPC_HUB_UID;
  });

  it("asks the bridge of --socket, before and after the word status", async () => {
    await using rig = await CliRig.open();
    const asked = rig.path("other.sock");
    const before = ["bridge", "--socket", asked, "status"];
    for (const args of [before, ["bridge", "status", "--socket", asked]])
      assert.match(await rig.fails("BRIDGE_UNAVAILABLE", ...args), /\/other\.sock\.bridge\./);
  });

  it("says what a machine's name consists of", async () => {
    await using rig = await CliRig.open();
    for (const name of ["-x", "x".repeat(300)]) {
      const error = await rig.fails("USAGE", "bridge", "--nats", "x", "--machine", name);
      assert.match(error, /give --machine 1 to 255 letters, .*, the first a letter, digit or '_'/);
      assert.ok(error.length < 300, error);
    }
  });

  it("escapes control characters in an argument", async () => {
    await using rig = await CliRig.open();
    for (const args of [
      ["\u001b[2J\nls"],
      ["ls", "--\u009bx"],
      ["put", "x", "\u001b[2J\n\u202e"],
      ["demo", "a\nb"],
    ]) {
      const { stdout, stderr } = await rig.run(...args);
      assert.equal(stdout, "");
      assert.match(stderr, /\\u00/);
      assert.match(stderr, /^error\[\w+\]: .+\n( {2}hint: .+\n)?$/);
      assert.doesNotMatch(stderr.replaceAll("\n", ""), /[\p{Cc}\p{Bidi_Control}]/u);
    }
    assert.match((await rig.run("lss")).stderr, /'lss'\n\(Did you mean ls\?\)\n/);
  });

  it("prints its help and fails without a command", async () => {
    await using rig = await CliRig.open();
    const { code, stderr } = await rig.run();
    assert.equal(code, 2);
    assert.match(stderr, /^Usage: cuda-ipc/);
  });

  it("names all demos if the demo is unknown", async () => {
    await using rig = await CliRig.open();
    assert.match(await rig.fails("USAGE", "demo", "bogus"), /the demos are share, crash/);
  });
});
