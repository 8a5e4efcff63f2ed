/** What every command gets: where to print, when to stop, and its exit code. */
import { constants } from "node:os";
import { CudaIpcError } from "../base/errors.js";
import { endWithoutTerminal } from "./terminal/gone-terminal.js";
import { Terminal } from "./terminal/terminal.js";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
type InterruptName = (typeof SIGNALS)[number];

/**
 * Turns Ctrl-C, SIGTERM and the end of the terminal into an AbortSignal, so that a command cleans
 * up before it ends. A second signal ends the process at once.
 */
export class Interruption {
  readonly #controller = new AbortController();
  readonly #onSignal = (name: NodeJS.Signals) => this.#receive(name as InterruptName);
  #received: InterruptName | undefined;

  private constructor() {
    for (const name of SIGNALS) process.on(name, this.#onSignal);
  }

  static listen(): Interruption {
    return new Interruption();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The signal that was received, if any. */
  get name(): InterruptName | undefined {
    return this.#received;
  }

  /**
   * The exit code a shell expects: 130 after Ctrl-C, 143 after SIGTERM, undefined after neither.
   */
  get exitCode(): number | undefined {
    return this.#received === undefined ? undefined : exitCodeOf(this.#received);
  }

  /** Resolves at the first signal. */
  async received(): Promise<void> {
    if (this.signal.aborted) return;
    await new Promise<void>((resolve) =>
      this.signal.addEventListener("abort", () => resolve(), { once: true }),
    );
  }

  close(): void {
    for (const name of SIGNALS) process.removeListener(name, this.#onSignal);
  }

  #receive(name: InterruptName): void {
    if (this.#received !== undefined) {
      this.close();
      endWithoutTerminal();
      process.exit(exitCodeOf(name));
    }
    this.#received = name;
    this.#controller.abort(new CudaIpcError("ABORTED", `Interrupted by ${name}`));
  }
}

function exitCodeOf(name: InterruptName): number {
  return 128 + constants.signals[name];
}

export class CommandContext {
  readonly terminal: Terminal;
  readonly interruption: Interruption;
  /** Set by a command that has reported a failure itself. */
  exitCode = 0;
  /** Set if nobody reads the rest of the output. The process must then not wait for it. */
  leavesOutput = false;

  private constructor(terminal: Terminal, interruption: Interruption) {
    this.terminal = terminal;
    this.interruption = interruption;
  }

  static ofProcess(): CommandContext {
    return new CommandContext(Terminal.ofProcess(), Interruption.listen());
  }

  /** Aborted by Ctrl-C. Every wait of a command takes it. */
  get signal(): AbortSignal {
    return this.interruption.signal;
  }

  close(): void {
    this.interruption.close();
  }
}
