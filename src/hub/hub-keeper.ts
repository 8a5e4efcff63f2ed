/**
 * The one keeper that a hub has: starts it, gives it what is stored, and puts another in its place if it ends or takes
 * nothing any more.
 */
import { GrowingPause } from "../base/growing-pause.js";
import { defaults } from "../base/limits.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { ServiceManager } from "../os/service-manager.js";
import { describeError } from "./client-connections.js";
import type { FdStore } from "./fd-store.js";
import { KeeperProcess } from "./keeper-process.js";

/** A keeper that lived for less is taken for one that cannot run: the next one has to wait longer. */
const GOOD_LIFE_MS = 1000;

export interface HubKeeperOptions {
  /** How it starts the next hub. */
  readonly command: readonly string[];
  readonly store: FdStore;
  readonly log: (line: string) => void;
}

export class HubKeeper {
  readonly #options: HubKeeperOptions;
  readonly #pause = new GrowingPause();
  #process: KeeperProcess | undefined;
  #manager: ServiceManager | undefined;
  #socketPath = "";
  #startedMs = 0;
  #restartTimer: NodeJS.Timeout | undefined;
  #stuckTimer: NodeJS.Timeout | undefined;

  constructor(options: HubKeeperOptions) {
    this.#options = options;
  }

  /** Undefined while there is none. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  /** Goes on with the keeper that started this process, which has what was inherited. Takes over the descriptors. */
  adopt(socket: OwnedFd, pidfd: OwnedFd): void {
    this.#process = new KeeperProcess(socket, pidfd, () => this.#onEnd());
  }

  /**
   * From here on what is stored is given to the keeper, which is started if there is none.
   * @param socketPath where this hub listens
   */
  begin(socketPath: string): void {
    this.#socketPath = socketPath;
    if (this.#process === undefined) this.#start();
    else this.#useProcess(this.#process);
  }

  /** Says how the hub is. */
  notify(state: string): boolean {
    return this.#manager?.notify(state) ?? false;
  }

  /** The keeper took some of what is stored, or has nothing left to take. */
  onProgress(): void {
    this.#stopExpecting();
    this.expectProgress();
  }

  /**
   * Something may have been stored: where the keeper takes nothing for a while, another one takes its place.
   * WHY the time does not begin anew: something new may be stored all the time.
   */
  expectProgress(): void {
    if (this.#stuckTimer !== undefined || this.#process === undefined || this.#options.store.pending === 0) return;
    this.#stuckTimer = setTimeout(() => {
      this.#options.log(`keeper ${this.pid} took nothing for ${defaults.keeperStuckMs} ms: it is killed`);
      this.replace();
    }, defaults.keeperStuckMs);
    this.#stuckTimer.unref();
  }

  /** Ends the keeper by force: another one takes its place. */
  replace(): void {
    this.#stopExpecting();
    this.#process?.kill();
  }

  /** Ends it together with the hub. */
  end(): void {
    // WHY: a keeper that does not hear it would start another hub.
    if (!this.notify("STOPPING=1")) this.#process?.kill();
  }

  /** Lets go of it. */
  close(): void {
    clearTimeout(this.#restartTimer);
    this.#stopExpecting();
    const process = this.#process;
    this.#process = undefined;
    this.#manager = undefined;
    process?.close();
  }

  #start(): void {
    const { command, log } = this.#options;
    try {
      this.#process = KeeperProcess.start(command, this.#socketPath, () => this.#onEnd());
    } catch (error) {
      log(`cannot start a keeper, so what nobody holds would be lost with this hub: ${describeError(error)}`);
      this.#startLater();
      return;
    }
    this.#startedMs = performance.now();
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
    if (performance.now() - this.#startedMs > GOOD_LIFE_MS) this.#pause.reset();
    this.#options.log(`keeper ${this.pid} has ended: another one takes its place`);
    this.#options.store.manageless();
    this.close();
    this.#startLater();
  }

  #startLater(): void {
    this.#restartTimer = setTimeout(() => this.#start(), this.#pause.nextMs());
  }
}
