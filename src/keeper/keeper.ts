/**
 * Keeps the descriptors that a hub gives it, and passes them to the next hub, which it starts when
 * the first one ends. Speaks the protocol of systemd's descriptor store. It must never block: it
 * looks only at memory, and closes large memory on the thread pool.
 *
 *   hub --- FDSTORE=1, FDSTOREREMOVE=1 ---> keeper
 *    |                                        |
 *   ends                                   pidfd: the hub has ended
 *                                             | reads the rest of the socket, then
 *   next hub <--- all descriptors, the hub's end of the socket, a pidfd of the keeper
 */
import { type ChildProcess, spawn } from "node:child_process";
import type { Log } from "../base/log-events.js";
import { GrowingPause } from "../base/pause.js";
import { releaseAll } from "../base/scope.js";
import { FdWatch } from "../os/fd-watch.js";
import { closeMemory } from "../os/foreign-fd.js";
import { OwnedFd } from "../os/owned-fd.js";
import { openPidfd, ProcessWatch } from "../os/process-watch.js";
import { keptEnvironment, keptNames } from "../os/received-fds.js";
import { type Packet, SeqpacketSocket } from "../os/seqpacket.js";
import { KEEPER_PROCESS, KEEPER_SOCKET, LEAVING } from "./keeper-names.js";

/** A hub that crashes sooner counts as broken: the next one waits longer. */
const GOOD_LIFE_MS = 1000;
const PAUSE_MS_MAX = 10_000;
const STANDARD_ERROR = 2;
/** The keeper must notice the hub's end soon, however much the hub sends. */
const WORDS_PER_TURN = 256;
/**
 * How long to rest after reading. Messages are as safe in the socket, and waking the keeper costs
 * the hub 50 us.
 */
const REST_MS = 5;

export interface KeeperOptions {
  /** The command that starts a hub. */
  readonly command: readonly string[];
  /** The keeper's end of the socket, and the hub's. */
  readonly socket: OwnedFd;
  readonly hubSocket: OwnedFd;
  /** A pidfd of the running hub. */
  readonly hub: OwnedFd;
  readonly log: Log;
}

export class Keeper {
  readonly #options: KeeperOptions;
  readonly #socket: SeqpacketSocket;
  readonly #own: OwnedFd;
  readonly #watch: FdWatch;
  readonly #pause = new GrowingPause(PAUSE_MS_MAX);
  /** Numbers, which only this class closes: objects would take three times the memory. */
  readonly #stored = new Map<string, readonly number[]>();
  #hub: ProcessWatch | undefined;
  #readyMs: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  #restTimer: NodeJS.Timeout | undefined;
  /** The hub said that it ends on purpose. */
  #isLeaving = false;
  #open = true;

  constructor(options: KeeperOptions) {
    this.#options = options;
    const own = openPidfd(process.pid);
    if (own === undefined) throw new Error("Cannot open the keeper's own process");
    this.#own = own;
    this.#socket = new SeqpacketSocket(options.socket);
    this.#watch = new FdWatch(options.socket, () => this.#readAndRest());
    this.#hub = new ProcessWatch(options.hub, () => this.#onHubEnd());
  }

  get count(): number {
    return [...this.#stored.values()].reduce((sum, fds) => sum + fds.length, 0);
  }

  /** Closes everything. A running hub goes on without a keeper. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    clearTimeout(this.#timer);
    clearTimeout(this.#restTimer);
    const fds = owned([...this.#stored.values()].flat());
    this.#stored.clear();
    releaseAll([
      () => this.#watch.close(),
      () => this.#hub?.close(),
      ...[this.#options.socket, this.#options.hubSocket, this.#own, ...fds].map(
        (fd) => () => fd.close(),
      ),
    ]);
  }

  /** Is not woken again before it has rested and found nothing to read. */
  #readAndRest(): void {
    const hasRead = this.#read(WORDS_PER_TURN) > 0;
    if (!this.#open) return;
    this.#watch.setReadable(!hasRead);
    if (hasRead) this.#restTimer = setTimeout(() => this.#readAndRest(), REST_MS);
  }

  /** @returns the number of messages read */
  #read(wordsMax: number): number {
    for (let count = 0; count < wordsMax; count += 1) {
      const packet = this.#open ? this.#socket.tryReceive() : undefined;
      if (packet === undefined || packet === "end") return count;
      this.#hear(packet);
    }
    return wordsMax;
  }

  #hear({ bytes, fds, damage }: Packet): void {
    if (damage !== undefined)
      this.#options.log("object-not-kept", `the keeper lost a descriptor: ${damage.message}`);
    const lines = Buffer.from(bytes).toString("utf8").split("\n");
    const name = lines.find((line) => line.startsWith("FDNAME="))?.slice("FDNAME=".length);
    if (lines.includes("FDSTORE=1") && name !== undefined && fds.length > 0) {
      this.#stored.set(name, [...(this.#stored.get(name) ?? []), ...fds.map((fd) => fd.take())]);
      return;
    }
    this.#drop(fds);
    if (lines.includes("FDSTOREREMOVE=1") && name !== undefined) {
      const removed = owned(this.#stored.get(name) ?? []);
      this.#stored.delete(name);
      this.#drop(removed);
    } else if (lines.includes("READY=1")) this.#readyMs = performance.now();
    else if (lines.includes(LEAVING)) this.#isLeaving = true;
    else if (lines.includes("STOPPING=1")) this.close();
  }

  #drop(fds: readonly OwnedFd[]): void {
    try {
      releaseAll(fds.map((fd) => () => closeMemory(fd)));
    } catch (error) {
      const message = `the keeper could not close a descriptor: ${String(error)}`;
      this.#options.log("internal-error", message);
    }
  }

  #onHubEnd(): void {
    this.#hub = undefined;
    // First, because the hub's last messages may still be in the socket, and may say that it
    // stopped.
    this.#read(Number.POSITIVE_INFINITY);
    if (!this.#open) return;
    const isGood = this.#readyMs !== undefined && performance.now() - this.#readyMs > GOOD_LIFE_MS;
    if (isGood || this.#isLeaving) this.#pause.reset();
    this.#startLater();
  }

  #startLater(): void {
    const pauseMs = this.#pause.nextMs();
    this.#options.log(
      this.#isLeaving ? "hub-restarts" : "hub-crashed",
      `the hub has ended: the keeper starts the next one in ${Math.ceil(pauseMs)} ms`,
    );
    this.#isLeaving = false;
    this.#timer = setTimeout(() => this.#start(), pauseMs);
  }

  #start(): void {
    this.#readyMs = undefined;
    try {
      const hub = this.#spawn();
      // At once: the number is reserved until Node reaps the process, in a later turn.
      const pidfd = hub.pid === undefined ? undefined : openPidfd(hub.pid);
      hub.on("error", (error) =>
        this.#options.log("hub-not-started", `the keeper cannot start a hub: ${error.message}`),
      );
      hub.unref();
      if (pidfd !== undefined) this.#hub = new ProcessWatch(pidfd, () => this.#onHubEnd());
    } catch (error) {
      this.#options.log("hub-not-started", `the keeper cannot start a hub: ${String(error)}`);
    }
    if (this.#hub === undefined) this.#startLater();
  }

  #spawn(): ChildProcess {
    const { command, hubSocket } = this.#options;
    const kept = [...this.#stored].flatMap(([name, fds]) => fds.map((fd) => ({ name, fd })));
    const itsOwn = [
      { name: KEEPER_SOCKET, fd: hubSocket.number },
      { name: KEEPER_PROCESS, fd: this.#own.number },
    ];
    const passed = [...kept, ...itsOwn];
    // WHY in this order: each then moves to a number no higher than its own, so the child needs no
    // further descriptors in between.
    passed.sort((one, other) => one.fd - other.fd);
    using names = keptNames(passed.map(({ name }) => name));
    const [program = process.execPath, ...args] = command;
    return spawn(program, args, {
      detached: true,
      env: { ...process.env, ...keptEnvironment(passed.length) },
      stdio: ["ignore", "ignore", STANDARD_ERROR, ...passed.map(({ fd }) => fd), names.number],
    });
  }
}

function owned(numbers: readonly number[]): OwnedFd[] {
  return numbers.map((number) => new OwnedFd(number));
}
