/** Starts, directs and ends an actor, which is a process of a demo. */
import { type ChildProcess, fork } from "node:child_process";
import { isErrorCode } from "../../base/error-codes.js";
import { CudaIpcError } from "../../base/errors.js";
import { ownProgram } from "../../base/own-package.js";
import type { ActorPart, FromActor, ToActor } from "./actor-messages.js";

export type ActorRole = "producer" | "consumer" | "reader" | "sender" | "receiver";

export class ActorProcess {
  readonly role: string;
  readonly pid: number;
  /** Resolves when the process has ended. */
  readonly exited: Promise<void>;
  readonly #child: ChildProcess;
  readonly #signal: AbortSignal;
  readonly #reached = new Set<string>();
  readonly #waiters = new Set<() => void>();
  #failure: CudaIpcError | undefined;
  #ended: { readonly code: number | null; readonly signal: string | null } | undefined;

  /**
   * @param title the actor's name in the output
   * @param onSay called for each step that the actor reports
   */
  static start(
    role: ActorRole,
    part: ActorPart,
    options: {
      readonly title: string;
      readonly signal: AbortSignal;
      readonly onSay: (actor: ActorProcess, text: string) => void;
    },
  ): ActorProcess {
    const program = `cli/demo/actors/${role}.js`;
    const file = ownProgram(program) ?? program;
    // WHY no execArgv: it may hold a debugger's port, which only one process can use.
    const child = fork(file, [JSON.stringify(part)], {
      execArgv: [],
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    return new ActorProcess(child, options.title, options.signal, options.onSay);
  }

  private constructor(
    child: ChildProcess,
    title: string,
    signal: AbortSignal,
    onSay: (actor: ActorProcess, text: string) => void,
  ) {
    this.#child = child;
    this.role = title;
    this.pid = child.pid ?? 0;
    this.#signal = signal;
    signal.addEventListener("abort", this.#wake);
    child.on("message", (message: FromActor) => {
      if (message.kind === "say") onSay(this, message.text);
      if (message.kind === "reached") this.#reached.add(message.point);
      if (message.kind === "failed")
        this.#failure = failureOf(message.code, `The ${title} failed: ${message.message}`);
      this.#wake();
    });
    this.exited = new Promise((resolve) => {
      const end = (code: number | null, byName: string | null) => {
        this.#ended = { code, signal: byName };
        signal.removeEventListener("abort", this.#wake);
        this.#wake();
        resolve();
      };
      child.once("error", () => end(null, null));
      child.once("exit", end);
    });
  }

  tell(word: string): void {
    const message: ToActor = { go: word };
    // WHY the callback: without it an actor that has just ended makes this throw. reached() reports
    // it.
    this.#child.send(message, () => {});
  }

  /**
   * Waits until the actor has reported this point.
   * @throws the actor's failure; PEER_GONE if it ended first
   */
  async reached(point: string): Promise<void> {
    await this.#until(() => {
      if (this.#reached.has(point)) return true;
      if (this.#ended !== undefined) throw this.#gone();
      return false;
    });
  }

  /** Waits until the actor has ended successfully. */
  async finished(): Promise<void> {
    await this.#until(() => this.#ended !== undefined);
    if (this.#ended?.code !== 0) throw this.#gone();
  }

  /** Kills the process and waits for its end. Do not call `finished` afterwards. */
  async kill(): Promise<void> {
    if (this.#ended === undefined) this.#child.kill("SIGKILL");
    await this.exited;
  }

  async #until(isDone: () => boolean): Promise<void> {
    for (;;) {
      this.#signal.throwIfAborted();
      if (this.#failure !== undefined) throw this.#failure;
      if (isDone()) return;
      await new Promise<void>((resolve) => this.#waiters.add(resolve));
    }
  }

  readonly #wake = (): void => {
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    for (const waiter of waiters) waiter();
  };

  #gone(): CudaIpcError {
    const how = this.#ended?.signal ?? `exit code ${this.#ended?.code ?? "unknown"}`;
    return new CudaIpcError(
      "PEER_GONE",
      `The ${this.role} (process ${this.pid}) ended too early: ${how}`,
    );
  }
}

function failureOf(code: string, message: string): CudaIpcError {
  return new CudaIpcError(isErrorCode(code) ? code : "SYSTEM_ERROR", message);
}
