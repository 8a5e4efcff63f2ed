/** The whole command line: its commands, its help and its exit codes. */
import { Command, CommanderError } from "commander";
import { checkRuntime } from "../base/check-runtime.js";
import { hasCode } from "../base/errors.js";
import { packageVersion } from "../base/own-package.js";
import { trustedUids } from "../client/connection/hub-trust.js";
import { probeNativeCalls } from "../client/probe-system.js";
import type { CommandContext } from "./command-context.js";
import { addBridge } from "./commands/bridge.js";
import { addBridgeStatus } from "./commands/bridge-status.js";
import { addReceive } from "./commands/channel-receive.js";
import { addSend } from "./commands/channel-send.js";
import { addStat } from "./commands/channel-stat.js";
import { addCompletion } from "./commands/completion.js";
import { addDashboard } from "./commands/dashboard.js";
import { addDemo } from "./commands/demo.js";
import { addDisconnect } from "./commands/disconnect.js";
import { addDoctor } from "./commands/doctor.js";
import { addGc } from "./commands/gc.js";
import { addGet } from "./commands/get.js";
import { addHubCheckConfig } from "./commands/hub-check-config.js";
import { addHubRestart } from "./commands/hub-restart.js";
import { addHubServe } from "./commands/hub-serve.js";
import { addHubStatus } from "./commands/hub-status.js";
import { addHubStop } from "./commands/hub-stop.js";
import { addInspect } from "./commands/inspect.js";
import { addLs } from "./commands/ls.js";
import { addManual } from "./commands/manual.js";
import { addMetrics } from "./commands/metrics.js";
import { addPull } from "./commands/pull.js";
import { addPut } from "./commands/put.js";
import { addRm } from "./commands/rm.js";
import { addTop } from "./commands/top.js";
import { helpText, purpose } from "./program-facts.js";
import { printErrors, UsageError } from "./terminal/error-report.js";
import { printable } from "./terminal/printable.js";

/** They print what needs no hub, and work wherever Node.js does. */
const ANYWHERE = new Set(["complete", "manual"]);

/** @returns the exit code of the process */
export async function runProgram(
  argv: readonly string[],
  context: CommandContext,
): Promise<number> {
  const program = createProgram(context);
  try {
    checkRuntime();
    // Many programs print their version for `-V`, too.
    const words = argv[0] === "-V" ? ["--version"] : argv;
    await program.parseAsync(words, { from: "user" });
    return context.exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return usageExitCode(error);
    const interrupted = context.interruption.exitCode;
    if (interrupted !== undefined && hasCode(error, "ABORTED"))
      context.terminal.note("Interrupted.");
    else printErrors(context.terminal, error);
    return interrupted ?? (error instanceof UsageError ? 2 : 1);
  }
}

/** All commands, and what `--help`, completion and the manual page say about them. */
export function createProgram(context: CommandContext): Command {
  const program = new Command("cuda-ipc");
  const { terminal } = context;
  program
    .description(`${purpose.replace(/^s/, "S")}.`)
    .version(packageVersion(), "-v, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .helpCommand(false)
    .exitOverride()
    .showHelpAfterError("  hint: Add --help to see its arguments and options.")
    .configureOutput({
      outputError: (text, write) =>
        write(`${terminal.noteStyle(["red", "bold"], "error[USAGE]")}: ${parserWords(text)}\n`),
    })
    .addHelpText("after", helpText);
  program.hook("preAction", (_, command) => {
    if (!ANYWHERE.has(command.name())) checkEnvironment();
  });
  addDemo(program, context);
  addDoctor(program, context);
  addPut(program, context);
  addGet(program, context);
  addLs(program, context);
  addInspect(program, context);
  addRm(program, context);
  addGc(program, context);
  addDisconnect(program, context);
  addTop(program, context);
  addDashboard(program, context);
  addMetrics(program, context);
  addChannel(program, context);
  addBridgeStatus(addBridge(program, context), context);
  addPull(program, context);
  addHub(program, context);
  addCompletion(program, context);
  addManual(program, context);
  addHelp(program);
  return program;
}

function addChannel(program: Command, context: CommandContext): void {
  const channel = program
    .command("channel")
    .helpCommand(false)
    .description("send and receive messages in shared memory, from one writer to many readers")
    .addHelpText(
      "after",
      "\nExample, in two terminals:\n  $ cuda-ipc channel receive numbers --lines\n" +
        "  $ seq 1000 | cuda-ipc channel send numbers --lines",
    );
  addSend(channel, context);
  addReceive(channel, context);
  addStat(channel, context);
}

function addHub(program: Command, context: CommandContext): void {
  const hub = program
    .command("hub")
    .helpCommand(false)
    .description("run, inspect or end the hub, the process that keeps names and memory")
    .addHelpText(
      "after",
      "\nYou rarely need these: a hub starts by itself when a process needs one.\n\n" +
        "Example:\n  $ cuda-ipc hub status",
    );
  addHubServe(hub, context);
  addHubStatus(hub, context);
  addHubRestart(hub, context);
  addHubStop(hub, context);
  addHubCheckConfig(hub, context);
}

/** Adds `cuda-ipc help hub serve`. The parser's own help command takes only one word. */
function addHelp(program: Command): void {
  program
    .command("help")
    .description("print the help of a command")
    .argument("[command...]", "which command, such as put or hub serve")
    .addHelpText("after", "\nExample:\n  $ cuda-ipc help channel send")
    .action((words: readonly string[]) => {
      let found = program;
      for (const word of words) {
        const next = found.commands.find((command) => command.name() === word);
        if (next === undefined) return refuseCommand(found, word);
        found = next;
      }
      found.outputHelp();
    });
}

/** @throws CommanderError as for an unknown command: it proposes one whose name is similar */
function refuseCommand(parent: Command, word: string): never {
  if (parent.commands.length > 0) parent.parse(["--", word], { from: "user" });
  throw new UsageError(`${parent.name()} has no command "${word}"`);
}

/** Reports what makes every command fail, before one prints. A wrong variable is wrong usage. */
function checkEnvironment(): void {
  probeNativeCalls();
  try {
    trustedUids();
  } catch (error) {
    throw error instanceof RangeError ? new UsageError(error.message) : error;
  }
}

/**
 * Makes the parser's message printable. The parser repeats arguments unescaped, and puts one line
 * break before a proposal.
 */
function parserWords(text: string): string {
  const [problem = "", ...proposals] = text
    .replace(/^error: /, "")
    .trimEnd()
    .split(/\n(?=\(Did you mean )/);
  return [problem, ...proposals].map(printable).join("\n");
}

/** The parser also "fails" after it has printed the help or the version. */
function usageExitCode(error: CommanderError): number {
  return error.exitCode === 0 ? 0 : 2;
}
