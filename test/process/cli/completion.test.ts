import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { safetensorsFile } from "../../support/safetensors-files.js";
import { CliRig, LAUNCH } from "./cli-rig.js";
import { addToPath, ShellRig, skipWithout } from "./shell-rig.js";

/** Names of arrays. The first letter of each is unique, so that it can be completed alone. */
const HARD = [
  ...["my frame", 'it\'s $HOME `id` "and" \\so', "new\nline\u001b[2J\u0001", "bang!*{a,b}(;|<>&"],
  ...["tick'", 'double"', "last\\", "c:d=e@f"],
];
const HARD_UNQUOTED = ["~user", "#hash", "$HOME/x", "é ü"];
/** bash and zsh make them harmless. fish would print them, so it gets none. */
const UNSAFE = ["over\u202e", "jump\u009b"];

function bundleFile(cli: CliRig): string {
  const arrays = [...HARD, ...HARD_UNQUOTED, ...UNSAFE].map(
    (name) => [name, { dtype: "uint8", shape: [1] }] as const,
  );
  writeFileSync(cli.path("hard.safetensors"), safetensorsFile(Object.fromEntries(arrays)));
  return "hard.safetensors";
}

/** A hub with objects whose names a shell splits, and a bundle with hard names. */
async function openRig(): Promise<CliRig> {
  const cli = await CliRig.open();
  addToPath(cli);
  mkdirSync(cli.path("a folder"));
  writeFileSync(cli.path("a folder/weights.npy"), "");
  writeFileSync(cli.path("data"), "1234");
  await cli.ok("put", "hard", bundleFile(cli));
  for (const name of ["frame-1", "frame-2", "cam:0:left"]) await cli.ok("put", name, "data");
  return cli;
}

/** What Tab makes of a line in any shell. */
const lines: readonly (readonly [line: string, ...args: string[]])[] = [
  ["cuda-ipc do", "doctor"],
  ["cuda-ipc hub check", "hub", "check-config"],
  ["cuda-ipc put x y --repl", "put", "x", "y", "--replace"],
  ["cuda-ipc put x y --device ho", "put", "x", "y", "--device", "host"],
  ["cuda-ipc put x y --device=ho", "put", "x", "y", "--device=host"],
  ["cuda-ipc put x y --dtype uint3", "put", "x", "y", "--dtype", "uint32"],
  [
    "cuda-ipc channel send x --when-full drop-o",
    "channel",
    "send",
    "x",
    "--when-full",
    "drop-oldest",
  ],
  ["cuda-ipc demo consumer-f", "demo", "consumer-first"],
  ["cuda-ipc help hub check", "help", "hub", "check-config"],
  ["cuda-ipc rm ca", "rm", "cam:0:left"],
  ["cuda-ipc rm cam:", "rm", "cam:0:left"],
  ["cuda-ipc rm cam:0:l", "rm", "cam:0:left"],
  ["cuda-ipc rm frame-1 cam:0", "rm", "frame-1", "cam:0:left"],
  ["cuda-ipc put x a\\ folder/we", "put", "x", "a folder/weights.npy"],
  ["cuda-ipc put x 'a folder/we", "put", "x", "a folder/weights.npy"],
  ["cuda-ipc hub serve --config=a\\ folder/we", "hub", "serve", "--config=a folder/weights.npy"],
  ["cuda-ipc bogus x", "bogus", "x"],
];

describe("cuda-ipc complete", () => {
  const RM = ["complete", "fish", "--", "cuda-ipc", "rm", ""];

  it("answers without names, and prints no error, if the hub does not go on", async () => {
    await using cli = await CliRig.open();
    writeFileSync(cli.path("data"), "1234");
    await cli.ok("put", "frame", "data");
    const patient = [...RM];
    patient.splice(1, 0, "--limit-ms", "30000");
    assert.equal(await cli.ok(...patient), "values\0frame\tuint8[4], 4 bytes\0");
    const { pid } = await cli.json<{ pid: number }>("hub", "status");
    process.kill(pid, "SIGSTOP");
    try {
      assert.deepEqual(await cli.run(...RM), { code: 0, stdout: "values\0", stderr: "" });
    } finally {
      process.kill(pid, "SIGCONT");
    }
  });

  it("starts no hub, and makes no file", async () => {
    await using cli = await CliRig.open();
    assert.equal(await cli.ok(...RM), "values\0");
    assert.deepEqual(readdirSync(cli.folder), []);
  });

  it("answers although a variable is wrong that makes other commands fail", async () => {
    await using cli = await CliRig.open();
    cli.env.CUDA_IPC_HUB_UID = "alice";
    assert.match(
      await cli.ok("complete", "bash", "--", "cuda-ipc hub se", "se"),
      /^values\nserve\n$/,
    );
    assert.equal(await cli.ok(...RM), "values\0");
    delete cli.env.CUDA_IPC_HUB_UID;
  });

  it("prints nothing raw on a terminal", async () => {
    await using cli = await CliRig.open();
    const command = `'${process.execPath}' '${LAUNCH}' ${RM.slice(0, -1).join(" ")} ''`;
    const { stdout } = spawnSync("script", ["-qec", command, "/dev/null"], {
      env: { ...cli.env, NO_COLOR: "1" },
      encoding: "utf8",
    });
    assert.match(stdout, /^error\[USAGE\]: only completion scripts can read the answer\./);
  });
});

for (const shell of ["bash", "zsh"] as const) {
  describe(`completion in ${shell}`, { skip: skipWithout(shell) }, () => {
    let cli: CliRig;
    let rig: ShellRig;
    before(async () => {
      cli = await openRig();
      rig = await ShellRig.open(cli, shell);
    });
    after(async () => {
      await rig.close();
      await cli[Symbol.asyncDispose]();
    });

    for (const [line, ...args] of lines) {
      it(`makes ${args.join(" ")} of ${line}`, async () => {
        assert.deepEqual(await rig.completed(line), args);
      });
    }

    it("completes what several names have in common", async () => {
      assert.deepEqual(await rig.completed("cuda-ipc rm f"), ["rm", "frame-"]);
    });

    it("completes names with characters that mean something to the shell", async () => {
      // zsh itself goes on in the quotes that are open.
      const quotes = shell === "bash" ? ["'", '"'] : [];
      const cases = [
        ...[...HARD, ...HARD_UNQUOTED, ...UNSAFE].map((name) => ({ quote: "", name })),
        ...quotes.flatMap((quote) => HARD.map((name) => ({ quote, name }))),
      ];
      for (const { quote, name } of cases) {
        const first = /^[~#$]/.test(name) ? `\\${name[0]}` : name[0];
        const line = `cuda-ipc get hard --array ${quote}${first}`;
        assert.deepEqual(await rig.completed(line), ["get", "hard", "--array", name], line);
      }
    });

    it("prints no error into the line, and changes nothing, without a hub", async () => {
      await cli.ok("hub", "stop", "--force");
      const before = rig.screen.length;
      assert.deepEqual(await rig.completed("cuda-ipc rm frame-1"), ["rm", "frame-1"]);
      assert.doesNotMatch(rig.screen.slice(before), /error|hint/);
      await cli.statusWithoutHub();
    });
  });
}

/** Prints what fish offers for each line, as fish would write it and then read it. */
const ASK_FISH = `
command cuda-ipc completion fish | source
for line in $argv
    for offer in (complete --escape -C $line)
        eval "printf '%s\\\\0' "(string split -f1 \\t -- $offer)
    end
    printf '\\n\\0'
end`;

describe("completion in fish", { skip: skipWithout("fish") }, () => {
  let cli: CliRig;
  before(async () => {
    cli = await openRig();
  });
  after(() => cli[Symbol.asyncDispose]());

  /** What fish offers in place of the last word of each line. */
  function offered(...asked: readonly string[]): string[][] {
    const { stdout, stderr } = spawnSync("fish", ["--no-config", "-c", ASK_FISH, ...asked], {
      cwd: cli.folder,
      env: { ...cli.env, HOME: cli.folder },
      encoding: "utf8",
    });
    assert.equal(stderr, "");
    return stdout
      .split("\n\0")
      .slice(0, -1)
      .map((part) => part.split("\0").slice(0, -1));
  }

  it("offers the rest of a line", () => {
    assert.deepEqual(
      offered(...lines.map(([line]) => line)),
      lines.map(([line, ...args]) => (line.includes("bogus") ? [] : args.slice(-1))),
    );
    assert.deepEqual(offered("cuda-ipc rm f"), [["frame-1", "frame-2"]]);
  });

  it("escapes names with characters that mean something to the shell", () => {
    const [found = []] = offered("cuda-ipc get hard --array ");
    assert.deepEqual(found.sort(), [...HARD, ...HARD_UNQUOTED].sort());
  });

  it("prints no error, and offers nothing, without a hub", async () => {
    await cli.ok("hub", "stop", "--force");
    assert.deepEqual(offered("cuda-ipc rm f"), [[]]);
    await cli.statusWithoutHub();
  });
});
