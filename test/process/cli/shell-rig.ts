/** An interactive shell in a pseudo-terminal, with the completion of `cuda-ipc` loaded. */
import assert from "node:assert/strict";
import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { until } from "../../support/until.js";
import { type CliRig, LAUNCH } from "./cli-rig.js";

const PROMPT = "shell> ";

/**
 * The function hides the command from the shell, but not from the scripts: they run `command
 * cuda-ipc`. It writes how many arguments it got, and the arguments.
 */
const RECORD = `cuda-ipc() { printf '%s\\0' "$#" "$@" >> "$RECORD"; }`;

/** How each shell starts, by what it reads first. */
const startups = {
  bash: {
    file: "bashrc",
    text: `PS1='${PROMPT}'\nsource <(command cuda-ipc completion bash)\n${RECORD}\n`,
    command: "bash --noprofile --rcfile bashrc -i",
  },
  zsh: {
    file: ".zshrc",
    text:
      `PS1='${PROMPT}'\nautoload -Uz compinit\ncompinit -D -u\n` +
      `source <(command cuda-ipc completion zsh)\n${RECORD}\n`,
    command: "zsh -i",
  },
};

/** Why tests of a shell cannot run. False if they run, or must fail. */
export function skipWithout(shell: string): string | false {
  const found = spawnSync(shell, ["--version"]).status === 0;
  return found || process.env.REQUIRE_SHELLS === "1" ? false : `no ${shell}`;
}

/** Puts `cuda-ipc` on the PATH of commands of this rig. Its completion waits as long as needed. */
export function addToPath(cli: CliRig): void {
  const folder = cli.path("bin");
  mkdirSync(folder);
  writeFileSync(
    `${folder}/cuda-ipc`,
    `#!/bin/sh
if [ "$1" = complete ]; then shift; set -- complete --limit-ms "\${LIMIT_MS:-30000}" "$@"; fi
exec '${process.execPath}' '${LAUNCH}' "$@"
`,
  );
  chmodSync(`${folder}/cuda-ipc`, 0o755);
  cli.env.PATH = `${folder}:${cli.env.PATH}`;
}

export class ShellRig {
  readonly cli: CliRig;
  readonly #child: ChildProcessWithoutNullStreams;
  #screen = "";
  #recorded = 0;

  private constructor(cli: CliRig, command: string) {
    this.cli = cli;
    // `script` makes the pseudo-terminal.
    this.#child = spawn("script", ["-qefc", command, "/dev/null"], {
      cwd: cli.folder,
      env: {
        ...cli.env,
        TERM: "dumb",
        ZDOTDIR: cli.folder,
        HISTFILE: "",
        RECORD: cli.path("record"),
      },
    });
    this.#child.stdout.setEncoding("utf8").on("data", (text: string) => {
      this.#screen += text;
    });
  }

  static async open(cli: CliRig, shell: keyof typeof startups): Promise<ShellRig> {
    const { file, text, command } = startups[shell];
    writeFileSync(cli.path(file), text);
    writeFileSync(cli.path("record"), "");
    const rig = new ShellRig(cli, command);
    await until(`${shell} shows its prompt`, () => rig.#screen.includes(PROMPT));
    return rig;
  }

  /** What the shell has printed, with what it echoed. */
  get screen(): string {
    return this.#screen;
  }

  /** Types this, presses Tab and Return, and resolves to the arguments of `cuda-ipc`. */
  async completed(line: string): Promise<string[]> {
    this.#child.stdin.write(`${line}\t\r`);
    const fields = () =>
      readFileSync(this.cli.path("record"), "utf8").split("\0").slice(this.#recorded, -1);
    await until(`${line} runs`, () => fields().length > Number(fields()[0]));
    const [count = "", ...args] = fields();
    this.#recorded += args.length + 1;
    assert.equal(args.length, Number(count));
    return args;
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#child.once("close", resolve));
    this.#child.kill("SIGKILL");
    await ended;
  }
}
