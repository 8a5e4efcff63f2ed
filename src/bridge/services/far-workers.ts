/** The workers of other machines that clients of this one use. Each belongs to one client. */
import type { Deadline } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import type { FetchParts } from "../transfer/fetch.js";
import { FarWorker, type WorkerWish } from "./far-worker.js";

export class FarWorkers {
  readonly #machine: string;
  readonly #parts: FetchParts;
  readonly #absence: () => string;
  readonly #log: (line: string) => void;
  readonly #workers = new Set<FarWorker>();

  /** @param absence says why a service may be missing, as the end of a sentence; or nothing */
  constructor(
    machine: string,
    parts: FetchParts,
    absence: () => string,
    log: (line: string) => void,
  ) {
    this.#machine = machine;
    this.#parts = parts;
    this.#absence = absence;
    this.#log = log;
  }

  /**
   * Offers a free worker of another machine to a client of this one: on the machine of which the
   * fewest workers of the service are used here.
   * @throws NOT_FOUND if no machine has a free one; PROTOCOL_MISMATCH; why the last machine could
   * give none
   */
  async offer(wish: WorkerWish, deadline: Deadline): Promise<FarWorker> {
    const { directory } = this.#parts;
    const { service } = wish;
    const machines = directory
      .machinesOf(service)
      .filter((machine) => machine !== this.#machine)
      .map((machine) => ({ machine, used: this.countOf(service, machine) }))
      .sort((one, other) => one.used - other.used);
    let failure = this.#missing(service);
    for (const { machine } of machines) {
      const record = directory.machine(machine)?.record;
      if (record === undefined) continue;
      try {
        return this.#keep(await FarWorker.claim(this.#parts, record, wish, deadline));
      } catch (error) {
        deadline.check();
        failure = error;
      }
    }
    throw failure;
  }

  #missing(service: string): unknown {
    const attempt = `use service "${service}"`;
    const mismatch = this.#parts.directory.mismatchOfService(attempt, service);
    const found = `no other machine has announced workers of it${this.#absence()}`;
    return mismatch ?? new CudaIpcError("NOT_FOUND", `Cannot ${attempt}: ${found}`);
  }

  /** Workers of a service on a machine that are used here. */
  countOf(service: string, machine: string): number {
    return [...this.#workers].filter((it) => it.service === service && it.machine === machine)
      .length;
  }

  close(reason: CudaIpcError): void {
    for (const worker of this.#workers) worker.abort(reason);
  }

  #keep(worker: FarWorker): FarWorker {
    const { service, machine } = worker;
    const what = `a worker of service "${service}" on machine "${machine}"`;
    this.#workers.add(worker);
    this.#log(`offered: ${what}`);
    void worker.ended.then((reason) => {
      this.#workers.delete(worker);
      this.#log(`no longer used: ${what}: ${reason}`);
    });
    return worker;
  }
}
