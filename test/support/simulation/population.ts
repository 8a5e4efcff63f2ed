/** Processes of several users that come and go. The hub can recognise some of them again. */
import type { Peer } from "../../../src/hub/core/ports.js";
import type { Random } from "../random.js";
import { Client, type SimulatedProcess } from "./client.js";
import { identityOf } from "./identity.js";
import { type Plan, STRANGER, USERS } from "./plan.js";

export class Population {
  readonly #random: Random;
  readonly #processes: SimulatedProcess[] = [];
  readonly #byIdentity = new Map<string, SimulatedProcess>();
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

  /** The process of these credentials, if it lives and the hub can recognise it. */
  find(peer: Peer): SimulatedProcess | undefined {
    const identity = identityOf(peer);
    return identity === undefined ? undefined : this.#byIdentity.get(identity);
  }

  spawn(): SimulatedProcess {
    const random = this.#random;
    this.#ticks += 1;
    this.total += 1;
    // WHY: a system reuses the pids of ended processes.
    const reused = random.chance(0.3) ? this.#pids.pop() : undefined;
    const pid = random.chance(0.03) ? 0 : (reused ?? 10_000 + this.#ticks);
    const startTicks = random.chance(0.03) ? null : this.#ticks;
    const uid = random.chance(0.02) ? STRANGER : random.pick(USERS);
    const groups = random.chance(0.1) ? [77, 1001] : random.chance(0.2) ? [random.pick(USERS)] : [];
    const pidfdInode = random.chance(0.5) ? String(this.total) : null;
    const gid = random.chance(0.9) ? uid : 1001;
    const peer: Peer = { pid, pidNamespace: 1, pidfdInode, startTicks, uid, gid, groups };
    const process: SimulatedProcess = { peer, alive: true, clients: [], connections: new Set() };
    process.clients.push(new Client(process));
    if (random.chance(0.1)) process.clients.push(new Client(process));
    this.#processes.push(process);
    const identity = identityOf(peer);
    if (identity !== undefined) this.#byIdentity.set(identity, process);
    return process;
  }

  kill(process: SimulatedProcess): void {
    process.alive = false;
    const place = this.#processes.indexOf(process);
    const last = this.#processes.pop() as SimulatedProcess;
    if (last !== process) this.#processes[place] = last;
    const { pid } = process.peer;
    this.#byIdentity.delete(identityOf(process.peer) ?? "");
    if (pid !== 0) this.#pids.push(pid);
  }
}
