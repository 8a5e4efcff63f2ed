/** The program's definitions, for tests that run no command. */
import type { Command } from "commander";
import { CommandContext } from "../../../src/cli/command-context.js";
import { createProgram } from "../../../src/cli/program.js";

export class ProgramRig {
  readonly context = CommandContext.ofProcess();
  readonly program = createProgram(this.context);

  /** All commands, also hidden ones and groups. */
  commands(parent: Command = this.program): Command[] {
    return parent.commands.flatMap((command) => [command, ...this.commands(command)]);
  }

  [Symbol.dispose](): void {
    this.context.close();
  }
}
