/**
 * The hub's one keeper. Starts it, gives it what is stored, and replaces it if it ends or stops
 * taking anything.
 */

import { namedError } from "../../base/last-error.js";
import { defaults } from "../../base/limits.js";
import type { Log, LogSettings } from "../../base/log-events.js";
import { GrowingPause } from "../../base/pause.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { ServiceManager } from "../../os/service-manager.js";
import { codeOf, describeError } from "../hub-log.js";
import type { FdStore } from "./fd-store.js";
import { KeeperProcess } from "./keeper-process.js";

/** A keeper that lives for less counts as broken: the next one waits longer. */
const GOOD_LIFE_MS = 10_000;
const PAUSE_MS_MAX = 60_000;

export interface HubKeeperOptions {
  /** The command that starts the next hub. */
  readonly command: readonly string[];
  /** How the keeper logs. */
  readonly logSettings: LogSettings;
  readonly store: FdStore;
  readonly log: Log;
}

export class HubKeeper {
  readonly #options: HubKeeperOptions;
  readonly #startProcess: typeof KeeperProcess.start;
  readonly #nowMs: () => number;
  readonly #pause = new GrowingPause(PAUSE_MS_MAX);
  #process: KeeperProcess | undefined;
  #manager: ServiceManager | undefined;
  #socketPath = "";
  #startedMs = 0;
  #restartTimer: NodeJS.Timeout | undefined;
  #stuckTimer: NodeJS.Timeout | undefined;

  /** Tests pass their own processes and their own clock. */
  constructor(
    options: HubKeeperOptions,
    start: typeof KeeperProcess.start = KeeperProcess.start,
    nowMs = () => performance.now(),
  ) {
    this.#options = options;
    this.#startProcess = start;
    this.#nowMs = nowMs;
  }

  get pid(): number | undefined {
    return this.#process?.pid;
  }

  /**
   * Goes on with the keeper that started this process and has what was inherited. Takes over the
   * descriptors.
   */
  adopt(socket: OwnedFd, pidfd: OwnedFd): void {
    this.#process = new KeeperProcess(socket, pidfd, () => this.#onEnd());
  }

  /**
   * Starts giving the keeper what is stored. Starts a keeper if there is none.
   * @param socketPath where this hub listens
   */
  begin(socketPath: string): void {
    this.#socketPath = socketPath;
    if (this.#process === undefined) this.#start();
    else this.#useProcess(this.#process);
  }

  /** Reports the hub's state. Returns false if the keeper cannot be told. */
  notify(state: string): boolean {
    return this.#manager?.notify(state) ?? false;
  }

  /** The keeper took something, or has nothing left to take. */
  onProgress(): void {
    this.#stopExpecting();
    this.expectProgress();
  }

  /**
   * Something may have been stored. Replaces a keeper that takes nothing for a while. The timeout
   * does not start anew: something new may be stored all the time.
   */
  expectProgress(): void {
    if (
      this.#stuckTimer !== undefined ||
      this.#process === undefined ||
      this.#options.store.pending === 0
    )
      return;
    this.#stuckTimer = setTimeout(() => {
      const { pid } = this;
      const message = `keeper ${pid} took nothing for ${defaults.keeperStuckMs} ms: it is killed`;
      this.#options.log("keeper-stuck", message, { pid });
      this.replace();
    }, defaults.keeperStuckMs);
    this.#stuckTimer.unref();
  }

  /** Kills the keeper. Another one replaces it. */
  replace(): void {
    this.#stopExpecting();
    this.#process?.kill();
  }

  /** Ends it together with the hub. */
  end(): void {
    // A keeper that does not hear it would start another hub.
    if (!this.notify("STOPPING=1")) this.#process?.kill();
  }

  close(): void {
    clearTimeout(this.#restartTimer);
    this.#stopExpecting();
    const process = this.#process;
    this.#process = undefined;
    this.#manager = undefined;
    process?.close();
  }

  #start(): void {
    const { log } = this.#options;
    try {
      this.#process = this.#startProcess(this.#options, this.#socketPath, () => this.#onEnd());
    } catch (error) {
      const found = "cannot start a keeper, so objects without holders would be lost with this hub";
      log("keeper-not-started", `${found}: ${describeError(error)}`, codeOf(error));
      this.#startLater();
      return;
    }
    this.#startedMs = this.#nowMs();
    this.#useProcess(this.#process);
  }

  #useProcess(process: KeeperProcess): void {
    this.#manager = ServiceManager.over(process.socket);
    this.#options.store.begin(this.#manager);
    this.expectProgress();
  }

  #stopExpecting(): void {
    clearTimeout(this.#stuckTimer);
    this.#stuckTimer = undefined;
  }

  #onEnd(): void {
    const wasGood = this.#nowMs() - this.#startedMs > GOOD_LIFE_MS;
    if (wasGood) this.#pause.reset();
    const { pid } = this;
    const words = wasGood ? "" : namedError(this.#process?.words() ?? "");
    const found = words === "" ? "has ended" : `has ended at once (${words})`;
    this.#options.log("keeper-ended", `keeper ${pid} ${found}: another one replaces it`, { pid });
    this.#options.store.manageless();
    this.close();
    this.#startLater();
  }

  #startLater(): void {
    this.#restartTimer = setTimeout(() => this.#start(), this.#pause.nextMs());
  }
}
