/** A child process of an example, and the messages between it and its parent. */
import { type ChildProcess, fork } from "node:child_process";
import { type EventEmitter, once } from "node:events";
import { fileURLToPath } from "node:url";
import { CudaIpcError, isErrorCode } from "cuda-ipc";
import { LIMIT, type Options } from "./program.ts";

interface Failure {
  /** "skipped" if this machine lacks a mechanism: the whole example is skipped then. */
  readonly kind: "failed" | "skipped";
  readonly code: string;
  readonly message: string;
}

interface ChildOptions {
  /** Plain arguments after the role. */
  readonly args?: readonly string[];
}

/** A child process. Disposing it ends a child that still runs. */
export class Child {
  readonly process: ChildProcess;
  readonly #inbox: Inbox;
  readonly #failure: Promise<never>;

  /**
   * Starts the same example (`import.meta.url`) in another role, with the options of this process.
   */
  constructor(example: string, role: string, options: Options, { args = [] }: ChildOptions = {}) {
    const device = options.device === undefined ? [] : ["--device", options.device];
    const counts = [
      "--elements",
      String(options.elements),
      "--processes",
      String(options.processes),
    ];
    this.process = fork(fileURLToPath(example), [role, ...args, ...counts, ...device], {
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    this.#inbox = new Inbox(this.process);
    this.#failure = failureOf(this.process);
    // A failure is reported to the next call that waits for the child.
    this.#failure.catch(() => {});
  }

  get pid(): number {
    return this.process.pid ?? 0;
  }

  tell(message: object | string): void {
    this.process.send(message);
  }

  /**
   * The next message of the child.
   * @throws the child's error; PEER_GONE if the child ended without a message
   */
  async hear<T>(): Promise<T> {
    const message = await this.#inbox.next();
    if (isFailure(message)) throw errorOf(this.pid, message);
    return message as T;
  }

  /** Waits for work of this process. Throws at once if the child fails. */
  during<T>(work: Promise<T>): Promise<T> {
    return Promise.race([work, this.#failure]);
  }

  /** Waits until the child has ended without an error. */
  async finished(): Promise<void> {
    await this.#ended();
    if (this.process.exitCode === 0) return;
    // If the child has reported its failure, that is the error.
    if (this.#inbox.hasMessage) await this.hear();
    throw goneError(this.process);
  }

  async kill(): Promise<void> {
    if (!this.#isRunning()) return;
    this.process.kill("SIGKILL");
    await this.#ended();
  }

  [Symbol.dispose](): void {
    if (this.#isRunning()) this.process.kill("SIGKILL");
  }

  async #ended(): Promise<void> {
    const signal = AbortSignal.timeout(LIMIT.timeoutMs);
    try {
      if (this.#isRunning()) await once(this.process, "exit", { signal });
      if (this.process.connected) await once(this.process, "disconnect", { signal });
    } catch (cause) {
      const message = `Process ${this.pid} was not done after ${LIMIT.timeoutMs / 1000} s`;
      throw new CudaIpcError("TIMEOUT", message, { cause });
    }
  }

  #isRunning(): boolean {
    return this.process.exitCode === null && this.process.signalCode === null;
  }
}

let fromParent: Inbox | undefined;

/**
 * Waits for the next message of the parent. Node keeps messages that came before the first call.
 */
export async function heard<T>(): Promise<T> {
  fromParent ??= new Inbox(process);
  return (await fromParent.next()) as T;
}

/** Sends a message to the parent. It is no error if an interrupted parent no longer reads it. */
export function tellParent(message: object | string): void {
  process.send?.(message, undefined, undefined, () => {});
}

class Inbox {
  readonly #messages: unknown[] = [];
  #waiting: (() => void) | undefined;
  #ended = false;

  constructor(from: EventEmitter) {
    from.on("message", (message: unknown) => {
      this.#messages.push(message);
      this.#waiting?.();
    });
    // WHY not "exit": the last messages may arrive after it.
    from.on("disconnect", () => {
      this.#ended = true;
      this.#waiting?.();
    });
  }

  get hasMessage(): boolean {
    return this.#messages.length > 0;
  }

  async next(): Promise<unknown> {
    const signal = AbortSignal.timeout(LIMIT.timeoutMs);
    const endMs = performance.now() + LIMIT.timeoutMs;
    while (this.#messages.length === 0) {
      if (this.#ended)
        throw new CudaIpcError("PEER_GONE", "The other process ended without an answer");
      if (performance.now() >= endMs) {
        throw new CudaIpcError(
          "TIMEOUT",
          `The other process was silent for ${LIMIT.timeoutMs / 1000} s`,
        );
      }
      await new Promise<void>((resolve) => {
        this.#waiting = resolve;
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
    }
    return this.#messages.shift();
  }
}

/** Rejects when the child reports a failure or ends with one. */
function failureOf(child: ChildProcess): Promise<never> {
  return new Promise((_, reject) => {
    child.on("message", (message) => {
      if (isFailure(message)) reject(errorOf(child.pid, message));
    });
    child.once("exit", (code) => {
      if (code === 0) return;
      const tell = () => reject(goneError(child));
      if (child.connected) child.once("disconnect", tell);
      else tell();
    });
  });
}

function goneError({ pid, signalCode, exitCode }: ChildProcess): CudaIpcError {
  return new CudaIpcError("PEER_GONE", `Process ${pid} ended with ${signalCode ?? exitCode}`);
}

function errorOf(pid: number | undefined, { kind, code, message }: Failure): CudaIpcError {
  if (kind === "skipped") return new CudaIpcError("UNSUPPORTED", message);
  const known = isErrorCode(code) ? code : "SYSTEM_ERROR";
  return new CudaIpcError(known, `Process ${pid} failed: ${message}`);
}

function isFailure(message: unknown): message is Failure {
  return (
    typeof message === "object" &&
    message !== null &&
    "kind" in message &&
    (message.kind === "failed" || message.kind === "skipped")
  );
}
