/** Processes that come and go, of several users; some of which the hub can know again, and some of which it cannot. */
import type { Peer } from "../../../src/hub/ports.js";
import type { Random } from "../random.js";
import { Client, type SimulatedProcess } from "./client.js";
import { type Plan, STRANGER, USERS } from "./plan.js";

export class Population {
  readonly #random: Random;
  readonly #processes: SimulatedProcess[] = [];
  readonly #byTicks = new Map<number, SimulatedProcess>();
  readonly #pids: number[] = [];
  #ticks = 0;
  total = 0;

  constructor(random: Random, _plan: Plan) {
    this.#random = random;
  }

  get size(): number {
    return this.#processes.length;
  }

  all(): readonly SimulatedProcess[] {
    return this.#processes;
  }

  any(): SimulatedProcess | undefined {
    return this.#processes[this.#random.below(this.#processes.length)];
  }

  sessionOfAnother(process: SimulatedProcess): number | undefined {
    const other = this.any();
    return other === process ? undefined : other?.clients[0]?.session;
  }

  /** The process of these credentials, if it lives and can be known again. */
  find({ pid, startTicks }: Pick<Peer, "pid" | "startTicks">): SimulatedProcess | undefined {
    const found = startTicks === null ? undefined : this.#byTicks.get(startTicks);
    return found?.peer.pid === pid ? found : undefined;
  }

  spawn(): SimulatedProcess {
    const random = this.#random;
    this.#ticks += 1;
    this.total += 1;
    // WHY: systems give the numbers of processes that have ended to new ones.
    const reused = random.chance(0.3) ? this.#pids.pop() : undefined;
    const pid = random.chance(0.03) ? 0 : (reused ?? 10_000 + this.#ticks);
    const startTicks = random.chance(0.03) ? null : this.#ticks;
    const uid = random.chance(0.02) ? STRANGER : random.pick(USERS);
    const groups = random.chance(0.1) ? [77, 1001] : random.chance(0.2) ? [random.pick(USERS)] : [];
    const peer: Peer = { pid, startTicks, uid, gid: random.chance(0.9) ? uid : 1001, groups };
    const process: SimulatedProcess = { peer, alive: true, clients: [], connections: new Set() };
    process.clients.push(new Client(process));
    if (random.chance(0.1)) process.clients.push(new Client(process));
    this.#processes.push(process);
    if (startTicks !== null) this.#byTicks.set(startTicks, process);
    return process;
  }

  kill(process: SimulatedProcess): void {
    process.alive = false;
    const place = this.#processes.indexOf(process);
    const last = this.#processes.pop() as SimulatedProcess;
    if (last !== process) this.#processes[place] = last;
    const { pid, startTicks } = process.peer;
    if (startTicks !== null) this.#byTicks.delete(startTicks);
    if (pid !== 0) this.#pids.push(pid);
  }
}
