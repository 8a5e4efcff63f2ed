/**
 * Runs client processes that connect to a hub, share, leave, and are killed or stopped at random,
 * for a given time. The choices follow from the seed. Their timing depends on the machine.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type AttackKind, soakServices } from "../../test/support/attack.js";
import { monotonicMs } from "../hub/monotonic.js";
import { memoryFileCount } from "../hub/process-facts.js";
import { Random } from "../random.js";
import { attackUntil, letAttackersIn } from "./attackers.js";
import { ClientProcess } from "./client-process.js";
import { HubObserver } from "./hub-observer.js";
import { lookUntil } from "./looks.js";
import { pause } from "./pause.js";
import { addCounts, type ClientLine, type Counts } from "./tally.js";
import type { SoakFindings, SoakSample } from "./verdict.js";

export interface SoakOptions {
  readonly minutes: number;
  readonly seed: number;
  /** 1 means six client processes. */
  readonly load: number;
  readonly killHub: boolean;
  /** Another user attacks the hub meanwhile. Needs root. */
  readonly attack: boolean;
  /** The attacks are also those that other programs of this machine feel. */
  readonly machineWide: boolean;
  /** How long an operation may take, without the time that it waits on request. */
  readonly operationMs: number;
  /** Seconds between two samples. */
  readonly sampleSeconds: number;
  /** Ends the run early. */
  readonly signal: AbortSignal;
  readonly onSample?: (sample: SoakSample) => void;
}

export interface SoakRun extends SoakFindings {
  readonly clients: Counts;
  readonly samples: readonly SoakSample[];
}

type Fate = "left" | "killed" | "stopped and continued" | "stopped and killed";

const CLIENTS_AT_LOAD_1 = 6;
const PAUSE_MS = 25;
const WARM_UP_MS = 1500;
const LEAVE_LIMIT_MS = 20_000;
const SETTLE_LIMIT_MS = 20_000;
/** Longer than any time without clients. */
const HUB_IDLE_MS = 60_000;
const FAULTS_MAX = 100;

export async function soak(options: SoakOptions): Promise<SoakRun> {
  const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-soak-"));
  const socket = join(folder, "hub.sock");
  try {
    if (options.attack) letAttackersIn(folder);
    await using observer = await HubObserver.join(socket, HUB_IDLE_MS);
    return await new Soak(options, socket, observer).run();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

class Soak {
  readonly #options: SoakOptions;
  readonly #socket: string;
  readonly #observer: HubObserver;
  readonly #random: Random;
  readonly #alive = new Set<ClientProcess>();
  readonly #counts: Counts = {};
  readonly #clients: Counts = {};
  #attacks: Counts | undefined;
  readonly #attacking: AttackKind[] = [];
  readonly #faults: string[] = [];
  readonly #startMs = monotonicMs();

  constructor(options: SoakOptions, socket: string, observer: HubObserver) {
    this.#options = options;
    this.#socket = socket;
    this.#observer = observer;
    this.#random = new Random(options.seed);
  }

  async run(): Promise<SoakRun> {
    const { minutes, load, killHub, attack, signal } = this.#options;
    try {
      // After a warm-up: the files that a hub opens for its first client, and its working heap, are
      // no growth.
      await this.#oneClient(0, "left", WARM_UP_MS, signal);
      const begin = await this.#settled(undefined);
      const over = this.#untilOver(minutes * 60_000, signal);
      const samples: SoakSample[] = [];
      const places = Array.from(
        { length: Math.max(1, Math.round(load * CLIENTS_AT_LOAD_1)) },
        (_, at) => this.#place(at, over),
      );
      await Promise.all([
        ...places,
        this.#takeSamples(samples, over),
        ...(killHub ? [this.#killHubs(over)] : []),
        ...(attack ? [this.#attack(over)] : []),
      ]);
      const end = await this.#settled(begin);
      const faults = [...this.#faults, ...this.#observer.unexpectedEnds];
      const { kills: hubKills, keeperKills } = this.#observer;
      return {
        hubKills,
        keeperKills,
        counts: this.#counts,
        clients: this.#clients,
        attacks: this.#attacks,
        begin,
        end,
        faults,
        samples,
      };
    } finally {
      await this.#killAll();
    }
  }

  /** WHY not AbortSignal.any with a timeout: Node may garbage-collect that before it fires. */
  #untilOver(ms: number, signal: AbortSignal): AbortSignal {
    const over = new AbortController();
    void pause(ms, signal).then(() => over.abort());
    return over.signal;
  }

  /** Runs one client after the other. */
  async #place(at: number, over: AbortSignal): Promise<void> {
    while (!over.aborted) {
      const lifeMs = this.#random.chance(0.1)
        ? this.#random.between(0, 1000)
        : this.#random.between(1000, 25_000);
      await this.#oneClient(at, this.#fate(), lifeMs, over);
    }
  }

  #fate(): Fate {
    const draw = this.#random.next();
    if (draw < 0.4) return "left";
    if (draw < 0.7) return "killed";
    return draw < 0.85 ? "stopped and continued" : "stopped and killed";
  }

  async #oneClient(at: number, fate: Fate, lifeMs: number, over: AbortSignal): Promise<void> {
    const order = {
      socket: this.#socket,
      seed: this.#random.below(2 ** 32),
      hubIdleMs: HUB_IDLE_MS,
      pauseMs: PAUSE_MS,
      operationMs: this.#options.operationMs,
      service: soakServices[at % soakServices.length] as string,
    };
    const stopMs = this.#random.between(50, 3000);
    const client = new ClientProcess(order, (line) => this.#onLine(line));
    this.#alive.add(client);
    try {
      await Promise.race([client.ended, pause(lifeMs, over)]);
      if (fate.startsWith("stopped")) {
        client.stop();
        await pause(stopMs, over);
      }
      if (fate === "stopped and continued") {
        client.continue();
        await Promise.race([client.ended, pause(stopMs, over)]);
      }
      if (fate === "killed" || fate === "stopped and killed") client.kill();
      else client.leave();
      await this.#awaitEnd(client, fate);
    } finally {
      this.#alive.delete(client);
    }
  }

  /** Counts a client's end, which must be the chosen one. */
  async #awaitEnd(client: ClientProcess, fate: Fate): Promise<void> {
    const late = new AbortController();
    const ended = await Promise.race([
      client.ended,
      pause(LEAVE_LIMIT_MS, late.signal).then(() => undefined),
    ]);
    late.abort();
    if (ended === undefined) {
      this.#fault(`client ${client.pid} had not ended after ${LEAVE_LIMIT_MS} ms, ${fate}`);
      client.kill();
      await client.ended;
      return;
    }
    const wanted = fate === "killed" || fate === "stopped and killed" ? "SIGKILL" : "0";
    if (ended === wanted) this.#clients[fate] = (this.#clients[fate] ?? 0) + 1;
    else this.#fault(`client ${client.pid}, which should have ${fate}, ended with ${ended}`);
  }

  #onLine(line: ClientLine): void {
    if (line.kind === "counts") addCounts(this.#counts, line.counts);
    else if (line.kind === "fault") this.#fault(line.fault);
    else
      this.#fault(
        `${line.late.operation} took ${Math.round(line.late.endMs - line.late.startMs)} ms`,
      );
  }

  #fault(fault: string): void {
    if (this.#faults.length >= FAULTS_MAX) return;
    const attacks =
      this.#attacking.length === 0 ? "" : `, attacked by ${this.#attacking.join("; ")}`;
    this.#faults.push(`${fault} (at ${this.#atSeconds()} s${attacks})`);
  }

  #atSeconds(): number {
    return Math.round((monotonicMs() - this.#startMs) / 100) / 10;
  }

  async #takeSamples(samples: SoakSample[], over: AbortSignal): Promise<void> {
    for (;;) {
      await pause(this.#options.sampleSeconds * 1000, over);
      if (over.aborted) return;
      const sample = await this.#sample();
      samples.push(sample);
      this.#options.onSample?.(sample);
    }
  }

  async #killHubs(over: AbortSignal): Promise<void> {
    // A short run also needs some deaths.
    const lifeMsMax = Math.min(30_000, this.#options.minutes * 20_000);
    for (;;) {
      await pause(this.#random.between(Math.min(3000, lifeMsMax / 2), lifeMsMax), over);
      if (over.aborted) return;
      await this.#observer.killHub();
      await pause(this.#random.between(500, 5000), over);
      if (over.aborted) return;
      await this.#observer.killKeeper();
    }
  }

  async #attack(over: AbortSignal): Promise<void> {
    const { machineWide, operationMs } = this.#options;
    const fault = (what: string) => this.#fault(what);
    const shared = { socket: this.#socket, random: this.#random, fault };
    const [attacks, looks] = await Promise.all([
      attackUntil(over, { ...shared, machineWide, running: this.#attacking }),
      lookUntil(over, { ...shared, operationMs }),
    ]);
    this.#attacks = attacks;
    addCounts(this.#counts, looks);
  }

  async #sample(): Promise<SoakSample> {
    const hub = await this.#observer.sample();
    const pids = [process.pid, hub.pid, ...[...this.#alive].map(({ pid }) => pid)];
    const memoryFilesOfAll = pids.map(memoryFilesOf).reduce((sum, count) => sum + count, 0);
    return {
      atSeconds: this.#atSeconds(),
      ...hub,
      clientProcesses: this.#alive.size,
      memoryFilesOfAll,
    };
  }

  /** Waits until the hub has freed everything after all clients left, or until a timeout. */
  async #settled(begin: SoakSample | undefined): Promise<SoakSample> {
    await this.#observer.removeAll();
    const endMs = monotonicMs() + SETTLE_LIMIT_MS;
    for (;;) {
      const sample = await this.#sample();
      const isEmpty =
        sample.objects === 0 &&
        sample.leases === 0 &&
        sample.clients === 1 &&
        // Large memory is freed a little later than the object ends.
        sample.memoryFilesOfAll === 0;
      if ((isEmpty && (begin === undefined || sample.fds <= begin.fds)) || monotonicMs() > endMs)
        return sample;
      await pause(20, this.#options.signal);
    }
  }

  async #killAll(): Promise<void> {
    const clients = [...this.#alive];
    for (const client of clients) client.kill();
    await Promise.all(clients.map(({ ended }) => ended));
  }
}

/** 0 for a process that has just ended. */
function memoryFilesOf(pid: number): number {
  try {
    return memoryFileCount(pid);
  } catch {
    return 0;
  }
}
