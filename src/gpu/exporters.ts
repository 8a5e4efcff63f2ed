/**
 * Processes whose memory or events are used here, each watched once until nothing of it is used any more, and what was learned of
 * them: the newest generation of each handle. Drivers hand out handles of the same bytes for what was freed and what came after it.
 */
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { openProcess, type ProcessIdentity, whereaboutsOf } from "../os/process-identity.js";
import { ProcessWatch } from "../os/process-watch.js";

/** A process that exported something which is used here. Given back by `Exporters.release`. */
export class Exporter {
  readonly identity: ProcessIdentity;
  readonly #watch: ProcessWatch;
  #gone = false;
  users = 0;

  /** @throws STALE_HANDLE where the process has ended */
  constructor(identity: ProcessIdentity, what: string) {
    this.identity = identity;
    const pidfd = openProcess(identity);
    if (pidfd === undefined) {
      const elsewhere = whereaboutsOf(identity) === "other-boot";
      const found = elsewhere ? "it is of another machine or an earlier boot" : `process ${identity.pid} ended`;
      throw new CudaIpcError("STALE_HANDLE", `Cannot import ${what}: ${found}`);
    }
    this.#watch = new ProcessWatch(pidfd, () => {
      this.#gone = true;
    });
  }

  /** Whether the process was seen to end. Costs nothing; at most a turn of the event loop late. */
  get gone(): boolean {
    return this.#gone;
  }

  /** As `gone`, but asked of the system now. */
  get exited(): boolean {
    return this.#watch.exited;
  }

  close(): void {
    this.#watch.close();
  }
}

export class Exporters {
  readonly #exporters = new Map<string, Exporter>();
  readonly #newest = new Map<string, number>();

  /** @throws STALE_HANDLE where the process has ended */
  retain(identity: ProcessIdentity, what: string): Exporter {
    const key = exporterKey(identity);
    let exporter = this.#exporters.get(key);
    if (exporter?.exited) {
      throw new CudaIpcError("STALE_HANDLE", `Cannot import ${what}: process ${identity.pid} ended`);
    }
    if (exporter === undefined) {
      exporter = new Exporter(identity, what);
      this.#exporters.set(key, exporter);
    }
    exporter.users += 1;
    return exporter;
  }

  release(exporter: Exporter): void {
    exporter.users -= 1;
    if (exporter.users > 0) return;
    this.#exporters.delete(exporterKey(exporter.identity));
    exporter.close();
  }

  /**
   * Learns of a generation from what was imported. The key is that of exporter and handle.
   * @throws STALE_HANDLE where a newer one is known
   */
  meet(key: string, generation: number, what: string): void {
    this.refuseOlder(key, generation, what);
    // WHY taken out first: the map's order is then that of the last meeting, and the oldest is forgotten.
    this.#newest.delete(key);
    this.#newest.set(key, generation);
    if (this.#newest.size <= limits.knownGenerationsMax) return;
    for (const oldest of this.#newest.keys()) {
      this.#newest.delete(oldest);
      return;
    }
  }

  /** @throws STALE_HANDLE where a newer one is known */
  refuseOlder(key: string, generation: number, what: string): void {
    const newest = this.#newest.get(key) ?? 0;
    if (generation >= newest) return;
    const found = `its exporter has given it up since, and the handle to something newer (generation ${newest})`;
    throw new CudaIpcError("STALE_HANDLE", `Cannot use ${what} of generation ${generation}: ${found}`);
  }
}

export function exporterKey({ bootId, pid, startTicks }: ProcessIdentity): string {
  return `${bootId} ${pid} ${startTicks}`;
}
