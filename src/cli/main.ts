/** Runs the command line of this process and sets its exit code. */
import { CommandContext } from "./command-context.js";
import { runProgram } from "./program.js";
import { endWithoutTerminal } from "./terminal/gone-terminal.js";

const context = CommandContext.ofProcess();
process.exitCode = await runProgram(process.argv.slice(2), context);
context.close();
endWithoutTerminal();
if (context.leavesOutput) process.exit();
