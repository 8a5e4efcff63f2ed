/**
 * The way back to a hub after a connection has ended: attempts with pauses that grow, until a hub answers or the time is up.
 * The time counts on over connections that end again before they were of any use.
 */
import { Deadline } from "../base/deadline.js";
import type { ErrorCode } from "../base/error-codes.js";
import { CudaIpcError, hasCode } from "../base/errors.js";
import { GrowingPause } from "../base/growing-pause.js";
import { folderOwner, ownUid } from "../os/runtime-folder.js";
import { Farewell, type HubConnection } from "./hub-connection.js";
import { type HubPlace, START_PATIENCE_MS, tryConnect, tryStart } from "./reach-hub.js";

/** Trying again changes nothing about these. */
const FINAL: ReadonlySet<ErrorCode> = new Set([
  "PROTOCOL_MISMATCH",
  "UNTRUSTED_PEER",
  "UNSAFE_RUNTIME_DIR",
  "SOCKET_PATH_TOO_LONG",
]);

/** setTimeout fires at once for anything larger. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Whether the hub is not to be looked for after this. */
export function isFinal(reason: unknown): boolean {
  return reason instanceof Farewell || (reason instanceof CudaIpcError && FINAL.has(reason.code));
}

export class Reconnection {
  readonly #place: HubPlace;
  readonly #timeoutMs: number;
  readonly #pause = new GrowingPause();
  /** When the search began; undefined while nothing is searched for. */
  #sinceMs: number | undefined;
  /** The last one that says why there is no hub. */
  #failure: unknown;
  #stopped = false;
  /** Of the attempt that is under way. */
  #controller: AbortController | undefined;
  #referenced = true;
  #timers = new Set<NodeJS.Timeout>();
  #wake: () => void = () => {};

  constructor(place: HubPlace, timeoutMs: number) {
    this.#place = place;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * The next connection that a hub has answered on; undefined once it was stopped.
   * @throws HUB_GONE once the time is up, and at once what ends the search for good
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
        // WHY: the search's own end says nothing about why it found no hub.
        if (this.#failure === undefined || !hasCode(error, "ABORTED")) this.#failure = error;
      }
    }
  }

  /** What the search has come upon instead of a hub, in words. */
  get found(): string {
    const isSilent = hasCode(this.#failure, "ABORTED");
    return isSilent ? "what listens there does not answer" : wordsOf(this.#failure);
  }

  /** The connection was of use: the next search has all of its time again. */
  succeeded(): void {
    this.#sinceMs = undefined;
    this.#pause.reset();
  }

  setReferenced(referenced: boolean): void {
    this.#referenced = referenced;
    for (const timer of this.#timers) refer(timer, referenced);
  }

  /** Ends the search after the attempt that is under way. */
  stop(): void {
    this.#stopped = true;
    this.#wake();
  }

  /** As `stop`, and gives up that attempt too, which a hub that does not answer would make as long as the whole search. */
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
    const place = this.#place;
    const controller = new AbortController();
    this.#controller = controller;
    // WHY not the deadline's own time limit: its timer would keep a process from ending that only looks for its hub.
    const timer = this.#setTimer(() => controller.abort(), this.#remainingMs);
    const attempt = `reconnect to the hub at ${place.socketPath}`;
    const deadline = new Deadline(attempt, { signal: controller.signal }, Number.POSITIVE_INFINITY);
    const greeting = { deadline, session, referenced: this.#referenced };
    try {
      const found = await tryConnect(place, greeting);
      // WHY not where the folder is gone, or another user's: whoever removed it wants no hub there any more, or has to start it.
      if (found !== undefined || !place.start || folderOwner(place.socketPath) !== ownUid()) return found;
      const impatient = performance.now() - this.#sinceOrNowMs > START_PATIENCE_MS;
      return await tryStart(place, greeting, impatient);
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
    refer(timer, this.#referenced);
    this.#timers.add(timer);
    return timer;
  }

  #clearTimer(timer: NodeJS.Timeout): void {
    clearTimeout(timer);
    this.#timers.delete(timer);
  }

  #gaveUp(): CudaIpcError {
    const attempt = `reconnect to the hub at ${this.#place.socketPath} within ${this.#timeoutMs} ms`;
    return new CudaIpcError("HUB_GONE", `Cannot ${attempt}: ${this.found}`, { cause: this.#failure });
  }
}

function wordsOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : "none listens there";
}

function refer(timer: NodeJS.Timeout, referenced: boolean): void {
  if (referenced) timer.ref();
  else timer.unref();
}
