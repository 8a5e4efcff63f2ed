/**
 * Processes whose memory or events are used here, each watched once until nothing of it is used any more, together with the marks by
 * which they tell what they have given up.
 */
import { CudaIpcError } from "../base/errors.js";
import { releaseAll } from "../base/scope.js";
import { openProcess, otherNamespace, type ProcessIdentity, whereaboutsOf } from "../os/process-identity.js";
import { ProcessWatch } from "../os/process-watch.js";
import type { MarkPlace } from "../wire/ipc-documents.js";
import { type ImportedMark, ImportedMarks } from "./export-marks.js";

/** A process that exported something which is used here. Given back by `Exporters.release`. */
export class Exporter {
  readonly identity: ProcessIdentity;
  readonly #watch: ProcessWatch;
  /** By their place in the exporter, which has a file of them for each device. */
  readonly #marks = new Map<string, ImportedMarks>();
  #gone = false;
  users = 0;

  /** @throws STALE_HANDLE where the process has ended, OTHER_PID_NAMESPACE */
  constructor(identity: ProcessIdentity, what: string) {
    this.identity = identity;
    const pidfd = openProcess(identity);
    if (pidfd === undefined) {
      const whereabouts = whereaboutsOf(identity);
      if (whereabouts === "unseen") throw otherNamespace(`import ${what}`, identity.pid);
      const found =
        whereabouts === "other-boot" ? "it is of another machine or an earlier boot" : `process ${identity.pid} ended`;
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

  /**
   * The mark of something that the process exported, to be looked at for as long as the exporter is retained.
   * @throws STALE_HANDLE where process or device are gone, INVALID_HANDLE, PERMISSION_DENIED
   */
  mark(place: MarkPlace, generation: number, what: string): ImportedMark {
    const key = `${place.fd} ${place.fileNumber}`;
    let marks = this.#marks.get(key);
    if (marks === undefined) {
      marks = ImportedMarks.open(this.identity, place, what);
      this.#marks.set(key, marks);
    }
    return marks.at(place, generation);
  }

  close(): void {
    releaseAll([() => this.#watch.close(), ...[...this.#marks.values()].map((marks) => () => marks.close())]);
  }
}

export class Exporters {
  readonly #exporters = new Map<string, Exporter>();

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
}

export function exporterKey({ bootId, pidNamespace, pid, startTicks }: ProcessIdentity): string {
  return `${bootId} ${pidNamespace} ${pid} ${startTicks}`;
}
