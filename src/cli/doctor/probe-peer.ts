/** The second process of a probe: started for one part, spoken with by messages, and ended with the probe whatever comes of that. */
import { type ChildProcess, fork } from "node:child_process";
import { isErrorCode } from "../../base/error-codes.js";
import { CudaIpcError } from "../../base/errors.js";
import { ownProgram } from "../../base/own-program.js";

export type ProbePart = "legacy" | "event" | "pool";

export interface ProbePeerOptions {
  /** Of the probe as a whole: ends the process and all waits for it. */
  readonly signal: AbortSignal;
  /** By when the process must have played its part. */
  readonly timeoutMs: number;
}

const PROGRAM = "cli/doctor/actors/plays-part.js";

export class ProbePeer {
  readonly pid: number;
  readonly #child: ChildProcess;
  readonly #part: ProbePart;
  readonly #options: ProbePeerOptions;
  /** Aborted when the time is over or the caller gives up. */
  readonly #end: AbortSignal;
  readonly #said: unknown[] = [];
  readonly #closed: Promise<void>;
  #wake: () => void = () => {};
  #failure: CudaIpcError | undefined;
  /** How it ended, once all that it said has arrived. */
  #ended: string | undefined;

  /** @param device the name by which both processes open it */
  static start(part: ProbePart, device: string, options: ProbePeerOptions): ProbePeer {
    // WHY no execArgv: a debugger's port, say, is meant for this process alone.
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
      // WHY not "exit": what it said last may still be on its way then.
      child.once("close", (code, signal) => end(signal ?? `exit code ${code}`));
    });
  }

  tell(message: object | string): void {
    // WHY the callback: telling a process that has just ended is no error here; whoever waits for it is told.
    this.#child.send(message, () => {});
  }

  /**
   * The next thing that it says, which is for the caller to check.
   * @throws what it failed with; PEER_GONE where it ended before, TIMEOUT, ABORTED
   */
  async says(): Promise<unknown> {
    await this.#until(() => this.#said.length > 0);
    return this.#said.shift();
  }

  /** Waits until it has ended by itself, its part played. */
  async finished(): Promise<void> {
    await this.#until(() => this.#ended === "exit code 0");
  }

  /** Ends it wherever it is; resolves once nothing of it is left. */
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
        const message = `The second process of the probe (${this.#part}) ended too early: ${this.#ended}`;
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
    if (signal.aborted) throw new CudaIpcError("ABORTED", `${attempt}: aborted`, { cause: signal.reason });
    if (this.#end.aborted) throw new CudaIpcError("TIMEOUT", `${attempt}: not done within ${timeoutMs} ms`);
  }
}

interface Failure {
  readonly kind: "failed";
  readonly code: string;
  readonly message: string;
}

function isFailure(message: unknown): message is Failure {
  return typeof message === "object" && message !== null && "kind" in message && message.kind === "failed";
}

function failureOf({ code, message }: Failure): CudaIpcError {
  return new CudaIpcError(isErrorCode(code) ? code : "SYSTEM_ERROR", `In a second process: ${message}`);
}
