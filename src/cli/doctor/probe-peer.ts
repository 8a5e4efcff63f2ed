/** Starts the second process of a probe, exchanges messages with it, and ends it with the probe. */
import { type ChildProcess, fork } from "node:child_process";
import { isErrorCode } from "../../base/error-codes.js";
import { CudaIpcError } from "../../base/errors.js";
import { ownProgram } from "../../base/own-package.js";

export type ProbePart = "legacy" | "event" | "pool";

export interface ProbePeerOptions {
  /** Ends the process and all waits for it. */
  readonly signal: AbortSignal;
  /** For the whole probe. */
  readonly timeoutMs: number;
}

const PROGRAM = "cli/doctor/actors/plays-part.js";

export class ProbePeer {
  readonly pid: number;
  readonly #child: ChildProcess;
  readonly #part: ProbePart;
  readonly #options: ProbePeerOptions;
  /** Aborted by the timeout or by the caller. */
  readonly #end: AbortSignal;
  readonly #said: unknown[] = [];
  readonly #closed: Promise<void>;
  #wake: () => void = () => {};
  #failure: CudaIpcError | undefined;
  /** How the process ended, set after all its messages have arrived. */
  #ended: string | undefined;

  /** @param device the name of the device that both processes open */
  static start(part: ProbePart, device: string, options: ProbePeerOptions): ProbePeer {
    // WHY no execArgv: it may hold a debugger's port, which only one process can use.
    const child = fork(ownProgram(PROGRAM) ?? PROGRAM, [part, device], {
      execArgv: [],
      stdio: ["ignore", "ignore", "ignore", "ipc"],
    });
    return new ProbePeer(child, part, options);
  }

  private constructor(child: ChildProcess, part: ProbePart, options: ProbePeerOptions) {
    this.#child = child;
    this.pid = child.pid ?? 0;
    this.#part = part;
    this.#options = options;
    this.#end = AbortSignal.any([options.signal, AbortSignal.timeout(options.timeoutMs)]);
    this.#end.addEventListener("abort", this.#changed);
    child.on("message", (message) => {
      if (isFailure(message)) this.#failure = failureOf(message);
      else this.#said.push(message);
      this.#changed();
    });
    this.#closed = new Promise((resolve) => {
      const end = (how: string) => {
        this.#ended = how;
        this.#changed();
        resolve();
      };
      child.once("error", (error) => end(error.message));
      // WHY not "exit": its last messages may arrive after that.
      child.once("close", (code, signal) => end(signal ?? `exit code ${code}`));
    });
  }

  tell(message: object | string): void {
    // WHY the callback: without it a process that has just ended makes this throw. says() reports
    // it.
    this.#child.send(message, () => {});
  }

  /**
   * Waits for its next message, which the caller must check.
   * @throws its own failure; PEER_GONE if it ended first, TIMEOUT, ABORTED
   */
  async says(): Promise<unknown> {
    await this.#until(() => this.#said.length > 0);
    return this.#said.shift();
  }

  /** Waits until it has ended successfully. */
  async finished(): Promise<void> {
    await this.#until(() => this.#ended === "exit code 0");
  }

  /** Kills the process if it still runs. Resolves when it has ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.removeEventListener("abort", this.#changed);
    if (this.#ended === undefined) this.#child.kill("SIGKILL");
    await this.#closed;
  }

  readonly #changed = (): void => this.#wake();

  async #until(isDone: () => boolean): Promise<void> {
    while (!isDone()) {
      if (this.#failure !== undefined) throw this.#failure;
      this.#refuseLate();
      if (this.#ended !== undefined) {
        const message =
          `Cannot probe with a second process (${this.#part}): it ended too early, ` +
          `with ${this.#ended}`;
        throw new CudaIpcError("PEER_GONE", message);
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #refuseLate(): void {
    const attempt = `Cannot probe with a second process (${this.#part})`;
    const { signal, timeoutMs } = this.#options;
    if (signal.aborted)
      throw new CudaIpcError("ABORTED", `${attempt}: aborted`, { cause: signal.reason });
    if (this.#end.aborted)
      throw new CudaIpcError("TIMEOUT", `${attempt}: it was not done within ${timeoutMs} ms`);
  }
}

interface Failure {
  readonly kind: "failed";
  readonly code: string;
  readonly message: string;
}

function isFailure(message: unknown): message is Failure {
  return (
    typeof message === "object" &&
    message !== null &&
    "kind" in message &&
    message.kind === "failed"
  );
}

function failureOf({ code, message }: Failure): CudaIpcError {
  return new CudaIpcError(
    isErrorCode(code) ? code : "SYSTEM_ERROR",
    `In a second process: ${message}`,
  );
}
