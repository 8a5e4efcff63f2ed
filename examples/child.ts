/** A child process of an example, and the messages between it and its parent. */
import { type ChildProcess, fork } from "node:child_process";
import { type EventEmitter, once } from "node:events";
import { fileURLToPath } from "node:url";
import { CudaIpcError, isErrorCode } from "cuda-ipc";
import { LIMIT, type Options, Skipped } from "./program.ts";

interface ChildOptions {
  /** Plain arguments after the role. */
  readonly args?: readonly string[];
  /** Variables of its environment, beside those of this process. */
  readonly env?: Readonly<Record<string, string>>;
}

/** A child process. Disposing it ends a child that still runs. */
export class Child {
  readonly process: ChildProcess;
  readonly #inbox: Inbox;
  readonly #failure: Promise<never>;
  /** Why it failed or was skipped, once it has said so. */
  #error: Error | undefined;

  /**
   * Starts the same example (`import.meta.url`) in another role, with the options of this process.
   */
  constructor(
    example: string,
    role: string,
    options: Options,
    { args = [], env = {} }: ChildOptions = {},
  ) {
    const device = options.device === undefined ? [] : ["--device", options.device];
    const counts = [
      "--elements",
      String(options.elements),
      "--processes",
      String(options.processes),
    ];
    this.process = fork(fileURLToPath(example), [role, ...args, ...counts, ...device], {
      env: { ...process.env, ...env },
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    this.#inbox = new Inbox(this.process);
    this.process.on("message", (message) => {
      this.#error ??= errorOf(this.pid, message);
    });
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
    const error = errorOf(this.pid, message);
    if (error !== undefined) throw error;
    return message as T;
  }

  /** Waits for work of this process. Throws at once if the child fails. */
  during<T>(work: Promise<T>): Promise<T> {
    return Promise.race([work, this.#failure]);
  }

  /** Waits until the child has ended without an error. */
  async finished(timeoutMs: number = LIMIT.timeoutMs): Promise<void> {
    await this.#ended(timeoutMs);
    if (this.#error !== undefined) throw this.#error;
    if (this.process.exitCode !== 0) throw goneError(this.process);
  }

  async kill(): Promise<void> {
    if (!this.#isRunning()) return;
    this.process.kill("SIGKILL");
    await this.#ended(LIMIT.timeoutMs);
  }

  [Symbol.dispose](): void {
    if (this.#isRunning()) this.process.kill("SIGKILL");
  }

  async #ended(timeoutMs: number): Promise<void> {
    const signal = limited(timeoutMs);
    try {
      if (this.#isRunning()) await once(this.process, "exit", { signal });
      if (this.process.connected) await once(this.process, "disconnect", { signal });
    } catch (cause) {
      const message = `Process ${this.pid} was not done after ${timeoutMs / 1000} s`;
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

  async next(): Promise<unknown> {
    const signal = limited(LIMIT.timeoutMs);
    while (this.#messages.length === 0) {
      if (this.#ended)
        throw new CudaIpcError("PEER_GONE", "The other process ended without an answer");
      if (signal.aborted) {
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

/** A signal that is aborted after this time, or by Ctrl-C. */
function limited(timeoutMs: number): AbortSignal {
  const controller = new AbortController();
  const end = () => controller.abort();
  setTimeout(end, timeoutMs).unref();
  if (LIMIT.signal.aborted) end();
  else LIMIT.signal.addEventListener("abort", end, { once: true });
  return controller.signal;
}

/** Rejects when the child reports a failure or ends with one. */
function failureOf(child: ChildProcess): Promise<never> {
  return new Promise((_, reject) => {
    child.on("message", (message) => {
      const error = errorOf(child.pid, message);
      if (error !== undefined) reject(error);
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

/** The error that a child reports. Undefined if it reports none. */
function errorOf(pid: number | undefined, message: unknown): Error | undefined {
  if (typeof message !== "object" || message === null || !("kind" in message)) return undefined;
  const { kind, code, message: text } = message as Record<string, unknown>;
  if (kind === "skipped") return new Skipped(String(text));
  if (kind !== "failed") return undefined;
  const known = typeof code === "string" && isErrorCode(code) ? code : "SYSTEM_ERROR";
  return new CudaIpcError(known, `Process ${pid} failed: ${text}`);
}
