/** The command line as a whole: its commands, its help, and how an outcome becomes an exit code. */
import { Command, CommanderError } from "commander";
import { checkRuntime } from "../base/check-runtime.js";
import { hasCode } from "../base/errors.js";
import { packageVersion } from "../base/version.js";
import { trustedUids } from "../client/hub-trust.js";
import { addChannel } from "./channel.js";
import type { CommandContext } from "./command-context.js";
import { addDemo } from "./demo.js";
import { addDoctor } from "./doctor.js";
import { printErrors, UsageError } from "./error-report.js";
import { addGet } from "./get.js";
import { addHub } from "./hub.js";
import { addInspect } from "./inspect.js";
import { addLs } from "./ls.js";
import { printable } from "./printable.js";
import { addPut } from "./put.js";
import { addRm } from "./rm.js";

const ENVIRONMENT = `
Environment:
  CUDA_IPC_SOCKET   the hub's socket (default: one in your runtime folder)
  CUDA_IPC_HUB_UID  the number of a user whose hub is trusted, beside you and root
  CUDA_IPC_DEVICE   the device where --device is not given: auto, host or cuda:N

Examples:
  $ cuda-ipc demo                          see two processes share an array
  $ cuda-ipc put weights model.safetensors
  $ cuda-ipc ls
  $ cuda-ipc get weights copy.safetensors

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted by Ctrl-C`;

/** @returns the exit code of the process */
export async function runProgram(argv: readonly string[], context: CommandContext): Promise<number> {
  const program = createProgram(context);
  try {
    checkRuntime();
    await program.parseAsync(argv, { from: "user" });
    return context.exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return usageExitCode(error);
    const interrupted = context.interruption.exitCode;
    if (interrupted !== undefined && hasCode(error, "ABORTED")) context.terminal.note("Interrupted.");
    else printErrors(context.terminal, error);
    return interrupted ?? (error instanceof UsageError ? 2 : 1);
  }
}

function createProgram(context: CommandContext): Command {
  const program = new Command("cuda-ipc");
  const { terminal } = context;
  program
    .description("Share GPU and host memory between processes, by name and without a copy.")
    .version(packageVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .helpCommand(false)
    .exitOverride()
    .showHelpAfterError("  hint: See what it takes with --help.")
    .configureOutput({
      outputError: (text, write) =>
        write(`${terminal.noteStyle(["red", "bold"], "error[USAGE]")}: ${parserWords(text)}\n`),
    })
    .addHelpText("after", ENVIRONMENT);
  program.hook("preAction", checkEnvironment);
  addDemo(program, context);
  addDoctor(program, context);
  addPut(program, context);
  addGet(program, context);
  addLs(program, context);
  addInspect(program, context);
  addRm(program, context);
  addChannel(program, context);
  addHub(program, context);
  return program;
}

/** WHY here: a variable that is wrong is wrong usage of every command, and no mistake of this program. */
function checkEnvironment(): void {
  try {
    trustedUids();
  } catch (error) {
    throw error instanceof RangeError ? new UsageError(error.message) : error;
  }
}

/** The parser repeats arguments as they are; the one line break of its own is that before a proposal. */
function parserWords(text: string): string {
  const [problem = "", ...proposals] = text
    .replace(/^error: /, "")
    .trimEnd()
    .split(/\n(?=\(Did you mean )/);
  return [problem, ...proposals].map(printable).join("\n");
}

/** Help and version were asked for; everything else that the parser ends with is wrong usage. */
function usageExitCode(error: CommanderError): number {
  return error.exitCode === 0 ? 0 : 2;
}
