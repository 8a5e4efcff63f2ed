/**
 * An object of another machine while it is copied or carried. If the link ends, it is opened again
 * over the next one, as long as the machine comes back in time and still has that object.
 */
import { Deadline } from "../../base/deadline.js";
import { CudaIpcError, hasCode } from "../../base/errors.js";
import { defaults } from "../../base/limits.js";
import type { NameRecord } from "../../wire/machine-records.js";
import type { LinkTable } from "../link/link-table.js";
import type { MachineLink } from "../link/machine-link.js";
import { peerGone } from "../link/peer-gone.js";
import type { Directory } from "../names/directory.js";

/** The first pause before a link is asked for again. */
const PAUSE_MS = 250;

/** How the object is opened over a link, and given back. */
export interface RemoteUse<T> {
  /** `copy`, as in "Cannot copy". */
  readonly verb: string;
  open(link: MachineLink, deadline: Deadline): Promise<T>;
  end(link: MachineLink, opened: T, deadline: Deadline): Promise<unknown>;
}

export type OpenedOver<T> = T & { readonly link: MachineLink };

export class RemoteObject<T extends object> {
  readonly #record: NameRecord;
  readonly #links: LinkTable;
  readonly #directory: Directory;
  readonly #signal: AbortSignal;
  readonly #use: RemoteUse<T>;
  #opened: OpenedOver<T> | undefined;
  /** Since when nothing has been copied. */
  #stuckSinceMs = performance.now();

  constructor(
    record: NameRecord,
    { links, directory }: { readonly links: LinkTable; readonly directory: Directory },
    signal: AbortSignal,
    use: RemoteUse<T>,
  ) {
    this.#record = record;
    this.#links = links;
    this.#directory = directory;
    this.#signal = signal;
    this.#use = use;
  }

  /** Opens the object, or returns it if it is open. @throws as `LinkTable.to`; STALE_HANDLE */
  async open(): Promise<OpenedOver<T>> {
    if (this.#opened?.link.open) return this.#opened;
    const { name, machine } = this.#record;
    const deadline = new Deadline(
      `${this.#use.verb} "${name}" from machine "${machine}"`,
      { signal: this.#signal, timeoutMs: defaults.machineReturnMs },
      defaults.machineReturnMs,
    );
    const { instance } = this.#machineRecord();
    const link = await this.#links.to(machine, instance, deadline);
    // WHY unlimited: what is opened too late must still be given back. A reader that nobody reads
    // would hold its writer back.
    const opening = this.#use.open(link, deadline.unlimited());
    const opened = await deadline.race(opening, () => {
      opening.then(
        (late) => this.#giveBack({ ...late, link }),
        () => {},
      );
    });
    this.#opened = { ...opened, link };
    return this.#opened;
  }

  /** Tells that bytes have arrived, or that the machine was there. */
  progressed(atMs: number = performance.now()): void {
    this.#stuckSinceMs = Math.max(this.#stuckSinceMs, atMs);
  }

  /**
   * Waits a moment after a failure, for the next attempt.
   * @throws the failure if another attempt cannot help, or the machine was away for too long
   */
  async recover(failure: unknown): Promise<void> {
    const mayPass = hasCode(failure, "PEER_GONE") || hasCode(failure, "NATS_UNAVAILABLE");
    if (!mayPass || performance.now() - this.#stuckSinceMs > defaults.machineReturnMs)
      throw failure;
    let timer: NodeJS.Timeout | undefined;
    const pause = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, PAUSE_MS);
    });
    const what = `${this.#use.verb} "${this.#record.name}"`;
    const deadline = new Deadline(what, { signal: this.#signal }, Number.POSITIVE_INFINITY);
    await deadline.race(pause, () => clearTimeout(timer));
  }

  /** Lets the other machine close the object. */
  end(): void {
    const opened = this.#opened;
    this.#opened = undefined;
    if (opened !== undefined) this.#giveBack(opened);
  }

  #giveBack(opened: OpenedOver<T>): void {
    if (!opened.link.open) return;
    const deadline = new Deadline("give an object back", {}, defaults.linkTimeoutMs);
    // Without effect on what was copied. The end of the link closes the object, too.
    this.#use.end(opened.link, opened, deadline).catch(() => {});
  }

  #machineRecord(): { readonly instance: string } {
    const { machine, name, object } = this.#record;
    const found = this.#directory.machine(machine)?.record;
    if (found === undefined) throw peerGone(machine, "its bridge is gone");
    const now = this.#directory.entry(name)?.record;
    if (found.ready && now !== undefined && (now.object !== object || now.machine !== machine)) {
      const what = `object ${now.object} of machine "${now.machine}" has replaced it`;
      const attempt = `${this.#use.verb} "${name}" of "${machine}"`;
      throw new CudaIpcError("STALE_HANDLE", `Cannot ${attempt}: ${what}`);
    }
    return found;
  }
}
