/** A shell in a real pseudo-terminal, and the screen that a person would see. */
import assert from "node:assert/strict";
import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Screen } from "../../support/screen.js";
import { soon } from "../../support/until.js";
import { CliRig, LAUNCH } from "./cli-rig.js";

const HOST = fileURLToPath(new URL("../../../../test/support/pty-host.py", import.meta.url));
const PYTHON = process.env.PYTHON ?? "python3";
const PROMPT = "shell> ";

/** Why tests in a pseudo-terminal cannot run. False if they run, or must fail. */
export const skipTerminal =
  spawnSync(PYTHON, ["-c", "import pty"]).status === 0 || process.env.REQUIRE_PYTHON === "1"
    ? false
    : `no ${PYTHON}, which makes a pseudo-terminal`;

export class TerminalRig {
  readonly cli: CliRig;
  readonly screen: Screen;
  readonly #host: ChildProcessWithoutNullStreams;
  readonly #changed = new Set<() => void>();

  private constructor(cli: CliRig, rows: number, columns: number) {
    this.cli = cli;
    this.screen = new Screen(rows, columns);
    writeFileSync(cli.path("bashrc"), `PS1='${PROMPT}'\n`);
    const shell = ["bash", "--noprofile", "--rcfile", cli.path("bashrc"), "-i"];
    const env = { ...cli.env, TERM: "xterm", NO_COLOR: "1", HISTFILE: "" };
    const args = [HOST, String(rows), String(columns), ...shell];
    this.#host = spawn(PYTHON, args, { env, cwd: cli.folder });
    this.#host.stdout.setEncoding("utf8").on("data", (text: string) => {
      this.screen.write(text);
      for (const look of [...this.#changed]) look();
    });
  }

  /** Resolves when the shell waits for a command. */
  static async open(rows = 24, columns = 80): Promise<TerminalRig> {
    const rig = new TerminalRig(await CliRig.open(), rows, columns);
    await rig.shows(/^shell>$/m);
    return rig;
  }

  press(text: string): void {
    this.#host.stdin.write(`${JSON.stringify({ write: text })}\n`);
  }

  /** Types `cuda-ipc` with these arguments and Return. */
  start(...args: string[]): void {
    this.press(`clear; '${process.execPath}' '${LAUNCH}' ${args.join(" ")}; echo "ended $?"\n`);
  }

  resize(rows: number, columns: number): void {
    this.screen.rows = rows;
    this.screen.columns = columns;
    this.#host.stdin.write(`${JSON.stringify({ resize: [rows, columns] })}\n`);
  }

  /** Resolves with the screen once it shows this. */
  async shows(pattern: RegExp): Promise<string> {
    const { screen } = this;
    let look = () => {};
    const shown = new Promise<string>((resolve) => {
      look = () => {
        if (screen.isWhole && pattern.test(screen.text)) resolve(screen.text);
      };
    });
    this.#changed.add(look);
    look();
    try {
      return await soon(`the screen shows ${pattern}`, shown);
    } catch (error) {
      assert.fail(`${error}; it shows:\n${screen.text}`);
    } finally {
      this.#changed.delete(look);
    }
  }

  /** Checks that the shell has its terminal back as it was before. */
  async isSane(): Promise<void> {
    const { alternate, cursorVisible, wraps, unknown } = this.screen;
    assert.deepEqual(
      { alternate, cursorVisible, wraps, unknown },
      { alternate: false, cursorVisible: true, wraps: true, unknown: [] },
    );
    this.press("clear; stty -a; echo read\n");
    const settings = await this.shows(/^read$/m);
    for (const setting of ["icanon", "echo", "isig", "icrnl", "opost"])
      assert.match(settings, new RegExp(`(^| )${setting}( |;|$)`, "m"), settings);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#host, "close");
    this.#host.stdin.end();
    await soon("the terminal ends", ended);
    await this.cli[Symbol.asyncDispose]();
  }
}
