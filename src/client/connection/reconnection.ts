/**
 * Looks for the next hub after a connection has ended: attempts with growing pauses, until a hub
 * answers or the time is up. A connection that ends before it was useful does not restart the time.
 */
import { Deadline } from "../../base/deadline.js";
import type { ErrorCode } from "../../base/error-codes.js";
import { CudaIpcError, hasCode } from "../../base/errors.js";
import { GrowingPause } from "../../base/pause.js";
import { folderOwner, ownUid } from "../../os/runtime-folder.js";
import type { HubConnection } from "./hub-connection.js";
import { Farewell, silentKeeper } from "./hub-reply.js";
import { KeepAlive } from "./keep-alive.js";
import { type HubTarget, START_PATIENCE_MS, tryConnect, tryStart } from "./reach-hub.js";

/** Errors that another attempt would not change. */
const FINAL: ReadonlySet<ErrorCode> = new Set([
  "PROTOCOL_MISMATCH",
  "UNTRUSTED_PEER",
  "UNSAFE_RUNTIME_DIR",
  "SOCKET_PATH_TOO_LONG",
]);

/** setTimeout fires at once for larger values. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** True if the client must not look for another hub after this error. */
export function isFinal(reason: unknown): boolean {
  return reason instanceof Farewell || (reason instanceof CudaIpcError && FINAL.has(reason.code));
}

/** Why a link ends that was looking for a hub. */
export function asReason(error: unknown, socketPath: string): CudaIpcError {
  if (error instanceof CudaIpcError) return error;
  return new CudaIpcError("HUB_GONE", `The connection to the hub at ${socketPath} has ended`, {
    cause: error,
  });
}

export class Reconnection {
  readonly #target: HubTarget;
  readonly #timeoutMs: number;
  readonly #pause = new GrowingPause();
  /** When the search began; undefined between searches. */
  #sinceMs: number | undefined;
  /** The latest failure that says why there is no hub. */
  #failure: unknown;
  #stopped = false;
  /** Aborts the current attempt. */
  #controller: AbortController | undefined;
  readonly #keepAlive = new KeepAlive();
  #wake: () => void = () => {};

  constructor(target: HubTarget, timeoutMs: number) {
    this.#target = target;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * The next connection; undefined if the search was stopped.
   * @throws HUB_GONE once the time is up, and at once for errors that end the search for good
   */
  async next(session: number): Promise<HubConnection | undefined> {
    this.#failure = undefined;
    for (;;) {
      const isFirst = this.#sinceMs === undefined;
      this.#sinceMs ??= performance.now();
      if (!isFirst) await this.#sleep(Math.min(this.#pause.nextMs(), this.#remainingMs));
      if (this.#stopped) return undefined;
      if (!isFirst && this.#remainingMs === 0) throw this.#gaveUp();
      try {
        const connection = await this.#attempt(session);
        if (connection !== undefined) return connection;
      } catch (error) {
        if (isFinal(error)) throw error;
        // The end of the search itself says nothing about why no hub was found.
        if (this.#failure === undefined || !hasCode(error, "ABORTED")) this.#failure = error;
      }
    }
  }

  /** Says in words why the search found no hub. */
  get found(): string {
    const isSilent = hasCode(this.#failure, "ABORTED");
    // Without a failure the attempt goes on, or nobody listens.
    const mayBeKept = isSilent || this.#failure === undefined;
    const keeper = mayBeKept ? silentKeeper(this.#target.socketPath) : undefined;
    return keeper ?? (isSilent ? "what listens there does not answer" : wordsOf(this.#failure));
  }

  /** Marks the connection as useful: the next search has all of its time again. */
  succeeded(): void {
    this.#sinceMs = undefined;
    this.#pause.reset();
  }

  setReferenced(referenced: boolean): void {
    this.#keepAlive.setReferenced(referenced);
  }

  /** Ends the search after the current attempt. */
  stop(): void {
    this.#stopped = true;
    this.#wake();
  }

  /**
   * As `stop`, and aborts the current attempt: a silent hub could make it last as long as the
   * search.
   */
  abandon(): void {
    this.stop();
    this.#controller?.abort();
  }

  get #sinceOrNowMs(): number {
    return this.#sinceMs ?? performance.now();
  }

  get #remainingMs(): number {
    return Math.max(0, this.#sinceOrNowMs + this.#timeoutMs - performance.now());
  }

  async #attempt(session: number): Promise<HubConnection | undefined> {
    const target = this.#target;
    const controller = new AbortController();
    this.#controller = controller;
    // Not the deadline's own time limit: its timer would keep the process alive.
    const timer = this.#setTimer(() => controller.abort(), this.#remainingMs);
    const attempt = `reconnect to the hub at ${target.socketPath}`;
    const deadline = new Deadline(attempt, { signal: controller.signal }, Number.POSITIVE_INFINITY);
    const greeting = { deadline, session, keepAlive: this.#keepAlive };
    try {
      const found = await tryConnect(target, greeting);
      // Does not start a hub if the folder is gone, because somebody removed it, or if it belongs
      // to another user, who starts the hub there.
      if (found !== undefined || !target.start || folderOwner(target.socketPath) !== ownUid())
        return found;
      const impatient = performance.now() - this.#sinceOrNowMs > START_PATIENCE_MS;
      return await tryStart(target, greeting, impatient);
    } finally {
      this.#clearTimer(timer);
    }
  }

  #sleep(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#setTimer(() => this.#wake(), milliseconds);
      this.#wake = () => {
        this.#clearTimer(timer);
        resolve();
      };
      if (this.#stopped) this.#wake();
    });
  }

  #setTimer(action: () => void, milliseconds: number): NodeJS.Timeout {
    const timer = setTimeout(action, Math.min(milliseconds, MAX_TIMER_MS));
    this.#keepAlive.hold(timer);
    return timer;
  }

  #clearTimer(timer: NodeJS.Timeout): void {
    clearTimeout(timer);
    this.#keepAlive.release(timer);
  }

  #gaveUp(): CudaIpcError {
    const { socketPath } = this.#target;
    const attempt = `reconnect to the hub at ${socketPath} within ${this.#timeoutMs} ms`;
    return new CudaIpcError("HUB_GONE", `Cannot ${attempt}: ${this.found}`, {
      cause: this.#failure,
    });
  }
}

function wordsOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : "none listens there";
}
