/** What every command is given: where to print, when to give up, and what to answer the shell with. */
import { Interruption } from "./interruption.js";
import { Terminal } from "./terminal.js";

export class CommandContext {
  readonly terminal: Terminal;
  readonly interruption: Interruption;
  /** Set by a command that has said itself what happened. */
  exitCode = 0;
  /** Set where output was given up on that nobody takes, so that the process must not wait for it. */
  leavesOutput = false;

  private constructor(terminal: Terminal, interruption: Interruption) {
    this.terminal = terminal;
    this.interruption = interruption;
  }

  static ofProcess(): CommandContext {
    return new CommandContext(Terminal.ofProcess(), Interruption.listen());
  }

  /** Aborted by Ctrl-C; goes into everything that is awaited. */
  get signal(): AbortSignal {
    return this.interruption.signal;
  }

  close(): void {
    this.interruption.close();
  }
}
