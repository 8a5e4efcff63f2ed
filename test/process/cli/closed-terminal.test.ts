/** Closes the terminal of commands: each must clean up and end by SIGHUP, without a crash. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { constants } from "node:os";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { soon } from "../../support/until.js";
import { CliRig, LAUNCH } from "./cli-rig.js";
import { skipTerminal } from "./terminal-rig.js";

const SCRIPT = fileURLToPath(
  new URL("../../../../test/support/closed-terminal.py", import.meta.url),
);
const PYTHON = process.env.PYTHON ?? "python3";

describe("a command whose terminal is closed", { skip: skipTerminal }, () => {
  for (const [shown, ...command] of [
    ["\u001b[?1049h", "top"],
    ["token=", "dashboard"],
    ["listens at", "hub", "serve"],
  ] as const) {
    it(`ends by SIGHUP: ${command.join(" ")}`, async () => {
      await using rig = await CliRig.open();
      const args = [SCRIPT, shown, process.execPath, LAUNCH, ...command];
      const run = promisify(execFile)(PYTHON, args, { env: rig.env, cwd: rig.folder });
      const { stdout } = await soon("the command ends", run);
      assert.equal(stdout.trim(), String(-constants.signals.SIGHUP));
    });
  }
});
