/**
 * The processes whose memory or events this process uses. Each exporter is watched once, for as
 * long as any of its exports is in use. Its marks tell which exports it has freed or closed.
 */
import type { DeviceReference } from "../../base/device-reference.js";
import { CudaIpcError } from "../../base/errors.js";
import { releaseAll } from "../../base/scope.js";
import { originOfHandle } from "../../driver/handle-origin.js";
import {
  isOwnIdentity,
  openProcess,
  otherNamespace,
  type ProcessIdentity,
  whereaboutsOf,
} from "../../os/process-identity.js";
import { ProcessWatch } from "../../os/process-watch.js";
import type { MarkLocation } from "../../wire/ipc-documents.js";
import type { Device } from "../device.js";
import { type ImportedMark, ImportedMarks } from "./export-marks.js";

/** A process whose exports are used here. Release it with `Exporters.release`. */
export class Exporter {
  readonly identity: ProcessIdentity;
  readonly #watch: ProcessWatch;
  /** By file: the exporter has one file of marks per device. */
  readonly #marks = new Map<string, ImportedMarks>();
  #gone = false;
  users = 0;

  /** @throws STALE_HANDLE if the process has ended, OTHER_PID_NAMESPACE */
  constructor(identity: ProcessIdentity, what: string) {
    this.identity = identity;
    const pidfd = openProcess(identity);
    if (pidfd === undefined) {
      const whereabouts = whereaboutsOf(identity);
      if (whereabouts === "unseen") throw otherNamespace(`import ${what}`, identity.pid);
      const found =
        whereabouts === "other-boot"
          ? "it is of another machine or an earlier boot"
          : `process ${identity.pid} ended`;
      throw new CudaIpcError("STALE_HANDLE", `Cannot import ${what}: ${found}`);
    }
    this.#watch = new ProcessWatch(pidfd, () => {
      this.#gone = true;
    });
  }

  /** Whether the process was seen to end. Free, and at most one turn of the event loop late. */
  get gone(): boolean {
    return this.#gone;
  }

  /** As `gone`, but asks the system now. */
  get exited(): boolean {
    return this.#watch.exited;
  }

  /**
   * Returns the mark of one export. It is readable while the exporter is retained.
   * @throws STALE_HANDLE if the process or its device is gone, INVALID_HANDLE, PERMISSION_DENIED
   */
  mark(location: MarkLocation, generation: number, what: string): ImportedMark {
    const key = `${location.fd} ${location.fileNumber}`;
    let marks = this.#marks.get(key);
    if (marks === undefined) {
      marks = ImportedMarks.open(this.identity, location, what);
      this.#marks.set(key, marks);
    }
    return marks.at(location, generation);
  }

  close(): void {
    releaseAll([
      () => this.#watch.close(),
      ...[...this.#marks.values()].map((marks) => () => marks.close()),
    ]);
  }
}

export class Exporters {
  readonly #exporters = new Map<string, Exporter>();

  /** @throws STALE_HANDLE if the process has ended */
  retain(identity: ProcessIdentity, what: string): Exporter {
    const key = exporterKey(identity);
    let exporter = this.#exporters.get(key);
    if (exporter?.exited) {
      throw new CudaIpcError(
        "STALE_HANDLE",
        `Cannot import ${what}: process ${identity.pid} ended`,
      );
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

/** The process that a bare handle names; undefined if only the driver can tell. */
export function exporterOfHandle(handle: Uint8Array): ProcessIdentity | undefined {
  return originOfHandle(handle)?.exporter;
}

export function exporterKey({ bootId, pidNamespace, pid, startTicks }: ProcessIdentity): string {
  return `${bootId} ${pidNamespace} ${pid} ${startTicks}`;
}

/** Compares kinds, not UUIDs: memory of one GPU can be imported onto another. */
export function checkDeviceKind(device: Device, origin: DeviceReference, what: string): void {
  if (device.isSameKindAs(origin)) return;
  const found = `it is of a ${origin.kind} device, wanted one for ${device.name}`;
  throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot import ${what}: ${found}`);
}

/** @throws OWN_HANDLE */
export function refuseOwnProcess(identity: ProcessIdentity, what: string): void {
  if (!isOwnIdentity(identity)) return;
  const found = `it was exported by this process (${identity.pid}), which has it`;
  throw new CudaIpcError("OWN_HANDLE", `Cannot import ${what}: ${found}`);
}
