/**
 * Ctrl-C, SIGTERM and the end of the terminal as an AbortSignal, so that a command ends through its own clean-up. The second
 * one ends the process at once.
 */
import { constants } from "node:os";
import { CudaIpcError } from "../base/errors.js";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
type InterruptName = (typeof SIGNALS)[number];

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

  /** Undefined where none was received. */
  get name(): InterruptName | undefined {
    return this.#received;
  }

  /** What a shell expects of a process that was interrupted: 130 for Ctrl-C, 143 for SIGTERM; undefined where none was. */
  get exitCode(): number | undefined {
    return this.#received === undefined ? undefined : exitCodeOf(this.#received);
  }

  /** Resolves at the first interruption. */
  async received(): Promise<void> {
    if (this.signal.aborted) return;
    await new Promise<void>((resolve) => this.signal.addEventListener("abort", () => resolve(), { once: true }));
  }

  close(): void {
    for (const name of SIGNALS) process.removeListener(name, this.#onSignal);
  }

  #receive(name: InterruptName): void {
    if (this.#received !== undefined) process.exit(exitCodeOf(name));
    this.#received = name;
    this.#controller.abort(new CudaIpcError("ABORTED", `Interrupted by ${name}`));
  }
}

function exitCodeOf(name: InterruptName): number {
  return 128 + constants.signals[name];
}
