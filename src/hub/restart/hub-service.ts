/**
 * The process that starts the next hub when this one ends: systemd, or a keeper of the hub's own.
 * It keeps the descriptors that would be lost otherwise, and passes them to the next hub.
 * docs: sd_notify(3), sd_listen_fds(3), "File Descriptor Store".
 */
import { defaults } from "../../base/limits.js";
import { defaultLogSettings, type Log, type LogSettings, noLog } from "../../base/log-events.js";
import { releaseAll } from "../../base/scope.js";
import { LEAVING } from "../../keeper/keeper-names.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { type Environment, keptFds, receivedFds } from "../../os/received-fds.js";
import type { SeqpacketListener } from "../../os/seqpacket-listener.js";
import { ServiceManager } from "../../os/service-manager.js";
import { codeOf, describeError } from "../hub-log.js";
import type { ObjectMemory } from "../objects/shared-object.js";
import { FdStore } from "./fd-store.js";
import { HubKeeper } from "./hub-keeper.js";
import type { HubState } from "./hub-records.js";
import { keptMemory } from "./kept-memory.js";
import { Received } from "./received.js";
import { LISTENER, LOCK, objectKey, PASSED_LISTENER, type StoredKey } from "./stored-names.js";

const STATUS_PAUSE_MS = 1000;
const RETRY_MS = 1000;

export interface HubServiceOptions {
  readonly log?: Log;
  /** How its keeper logs. */
  readonly logSettings?: LogSettings;
  readonly env?: Environment;
  /** The command that starts this hub again. Without it the hub has no keeper of its own. */
  readonly command?: readonly string[] | undefined;
}

/** The hub's own descriptors that the next hub needs. */
export interface HubDescriptors {
  readonly lock: OwnedFd;
  readonly listener: SeqpacketListener;
}

export class HubService {
  readonly #manager: ServiceManager | undefined;
  readonly #keeper: HubKeeper | undefined;
  readonly #store: FdStore;
  readonly #log: Log;
  readonly #received: Received;
  /** The objects whose `onKept` is still to be called, with the timers that end the wait. */
  readonly #waiting = new Map<StoredKey, { readonly object: number; timer: NodeJS.Timeout }>();
  #onKept: (object: number) => void = () => {};
  #statusTimer: NodeJS.Timeout | undefined;
  #retryTimer: NodeJS.Timeout | undefined;

  private constructor(
    received: Received,
    manager: ServiceManager | undefined,
    options: HubServiceOptions,
  ) {
    const { log = noLog, logSettings = defaultLogSettings, command } = options;
    this.#log = log;
    this.#received = received;
    this.#manager = manager;
    this.#store = new FdStore({
      log,
      onSettled: (key) => this.#onSettled(key),
      onProgress: () => this.#keeper?.onProgress(),
      onFailure: () => this.#onFailure(),
    });
    if (manager === undefined && command !== undefined)
      this.#keeper = new HubKeeper({ command, logSettings, store: this.#store, log });
  }

  /**
   * The manager or keeper that started this process. Returns undefined if there is none and the
   * hub is to have none. Call it once, at the start of the process.
   * @throws INVALID_MESSAGE if the passed descriptors make no sense
   */
  static ofProcess(options: HubServiceOptions = {}): HubService | undefined {
    const { env = process.env, command } = options;
    const manager = ServiceManager.fromEnv(env);
    const fds = [...keptFds(env), ...receivedFds(env)];
    if (manager === undefined && command === undefined && fds.length === 0) return undefined;
    const service = new HubService(new Received(fds), manager, options);
    service.#inherit();
    return service;
  }

  /** Whether an earlier hub left its lock to this one. */
  get isSuccessor(): boolean {
    return this.#received.hasLock;
  }

  /** Whether a service manager runs this hub: it ends the hub by a signal and starts it again. */
  get isManaged(): boolean {
    return this.#manager !== undefined;
  }

  /** Whether anybody starts the next hub when this one ends. */
  get restarts(): boolean {
    return this.#manager !== undefined || this.#keeper?.pid !== undefined;
  }

  /** Undefined without a keeper. */
  get keeper():
    | { readonly pid: number; readonly descriptors: number; readonly pending: number }
    | undefined {
    const pid = this.#keeper?.pid;
    return pid === undefined
      ? undefined
      : { pid, descriptors: this.#store.count, pending: this.#store.pending };
  }

  get ownsSocket(): boolean {
    return this.#received.ownsSocket;
  }

  /** The passed listening socket, owned by the caller. Undefined if none was passed. */
  takeListener(): SeqpacketListener | undefined {
    return this.#received.takeListener();
  }

  /** The lock of the earlier hub, owned by the caller. */
  takeLock(): OwnedFd | undefined {
    return this.#received.takeLock();
  }

  /** A pidfd of the process behind this session, owned by the caller. */
  takeProcess(session: number): OwnedFd | undefined {
    return this.#received.takeProcess(session);
  }

  /** The kept memory of these objects, owned by the caller. Closes the rest. */
  takeMemory(objects: HubState["objects"]): Map<number, ObjectMemory<OwnedFd>> {
    const found = keptMemory(this.#received.memory, objects, this.#log);
    this.#received.memory.clear();
    return found;
  }

  /**
   * Starts storing everything, including what was stored so far. Drops what an earlier hub had
   * stored beside that.
   * @param onKept see `isKept`; called from the event loop
   */
  begin(socketPath: string, own: HubDescriptors, onKept: (object: number) => void): void {
    this.#onKept = onKept;
    this.#store.store(LOCK, [own.lock]);
    // systemd passes the socket of a socket unit by itself.
    if (this.#keeper !== undefined && !this.ownsSocket)
      this.#store.store(PASSED_LISTENER, [own.listener.fd]);
    else if (this.ownsSocket) this.#store.store(LISTENER, [own.listener.fd]);
    this.#store.dropInherited();
    this.#received.closeProcesses();
    if (this.#manager !== undefined) this.#store.begin(this.#manager);
    this.#keeper?.begin(socketPath);
  }

  /** Tells the service manager or keeper that the hub listens. */
  ready(status: () => string): void {
    const manager = this.#manager;
    this.#tell(() => (manager ?? this.#keeper)?.notify(`READY=1\nSTATUS=${status()}`));
    if (manager === undefined) return;
    let told = status();
    this.#statusTimer = setInterval(() => {
      const now = status();
      if (now !== told) this.#tell(() => manager.notify(`STATUS=${now}`));
      told = now;
    }, STATUS_PAUSE_MS);
    this.#statusTimer.unref();
  }

  /** Keeps these descriptors for the next hub until `remove`. They stay the caller's. */
  store(key: StoredKey, fds: readonly OwnedFd[]): void {
    this.#store.store(key, fds);
    this.#keeper?.expectProgress();
  }

  remove(key: StoredKey): void {
    this.#store.remove(key);
  }

  /**
   * Whether the next hub would get this object's memory. True as well if nobody can keep it at the
   * moment. If false, calls `onKept` when it is kept, or after a timeout.
   */
  isKept(object: number): boolean {
    const key = objectKey(object);
    if (!this.restarts || this.#store.has(key)) return true;
    clearTimeout(this.#waiting.get(key)?.timer);
    const timer = setTimeout(() => {
      const found = "is published but not kept for the next hub yet: the keeper is too slow";
      this.#log("object-not-kept", `object ${object} ${found}`, { object });
      this.#onSettled(key);
    }, defaults.keptWaitMs);
    this.#waiting.set(key, { object, timer });
    return false;
  }

  /** Tells the keeper that this hub ends on purpose, for the next one. */
  leaving(): void {
    this.#tell(() => this.#keeper?.notify(LEAVING));
  }

  /** Tells the service manager or keeper that the hub ends for good. */
  stopping(): void {
    clearInterval(this.#statusTimer);
    this.#tell(() => this.#manager?.notify("STOPPING=1"));
    this.#tell(() => this.#keeper?.end());
  }

  /** Closes what was not taken. The manager or keeper keeps what it has. */
  close(): void {
    clearInterval(this.#statusTimer);
    clearTimeout(this.#retryTimer);
    for (const { timer } of this.#waiting.values()) clearTimeout(timer);
    this.#waiting.clear();
    releaseAll([
      () => this.#store.close(),
      () => this.#keeper?.close(),
      () => this.#received.close(),
    ]);
  }

  #onSettled(key: StoredKey): void {
    const waiting = this.#waiting.get(key);
    if (waiting === undefined) return;
    clearTimeout(waiting.timer);
    this.#waiting.delete(key);
    this.#onKept(waiting.object);
  }

  /** Replaces a keeper that takes nothing any more. A service manager comes back by itself. */
  #onFailure(): void {
    this.#keeper?.replace();
    const manager = this.#manager;
    if (manager === undefined) return;
    this.#retryTimer = setTimeout(() => this.#store.begin(manager), RETRY_MS);
    this.#retryTimer.unref();
  }

  #inherit(): void {
    for (const [key, fds] of this.#received.stored) this.#store.inherit(key, fds);
    this.#received.stored.clear();
    const keeper = this.#received.takeKeeper();
    if (keeper !== undefined) this.#keeper?.adopt(keeper.socket, keeper.pidfd);
  }

  #tell(say: () => unknown): void {
    try {
      say();
    } catch (error) {
      const message = `could not tell the service manager: ${describeError(error)}`;
      this.#log("hub-not-told", message, codeOf(error));
    }
  }
}
