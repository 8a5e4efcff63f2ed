/**
 * This machine's record in NATS, which says that its bridge runs. It ends by itself if the bridge
 * does not renew it. One bridge at a time has the record of a machine.
 */
import type { Deadline } from "../../base/deadline.js";
import { CudaIpcError, messageOf } from "../../base/errors.js";
import { defaults } from "../../base/limits.js";
import {
  decodeMachine,
  encodeRecord,
  type MachineRecord,
  machineKey,
} from "../../wire/machine-records.js";
import { VersionMismatch } from "../../wire/machines-version.js";
import type { NameStore } from "./name-store.js";

/** Three chances to renew the record before it ends. */
const RENEW_MS = defaults.machineTtlMs / 4;
const CLAIM_PAUSE_MS = 500;

export interface PresenceEvents {
  /** The record had ended and was written again. Announce the names again, then `setReady`. */
  onRestored(): void;
  /** Another bridge has taken the record. */
  onLost(reason: CudaIpcError): void;
}

export class Presence {
  readonly #store: NameStore;
  readonly #log: (line: string) => void;
  readonly #events: PresenceEvents;
  #record: MachineRecord;
  #revision: number;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  #open = true;

  private constructor(
    store: NameStore,
    record: MachineRecord,
    revision: number,
    log: (line: string) => void,
    events: PresenceEvents,
  ) {
    this.#store = store;
    this.#record = record;
    this.#revision = revision;
    this.#log = log;
    this.#events = events;
    this.#timer = setInterval(() => void this.#renew(), RENEW_MS);
  }

  /**
   * Takes the record of this machine: if there is none, if the last bridge of the same hub left it,
   * or once it has ended.
   * @throws BRIDGE_RUNNING if another bridge keeps it, NATS_UNAVAILABLE, ABORTED
   */
  static async claim(
    store: NameStore,
    record: MachineRecord,
    deadline: Deadline,
    log: (line: string) => void,
    events: PresenceEvents,
  ): Promise<Presence> {
    const waitMs = 2 * defaults.machineTtlMs;
    const endMs = performance.now() + waitMs;
    for (let isFirst = true; ; isFirst = false) {
      const attempt = await tryClaim(store, record);
      if (typeof attempt === "number") return new Presence(store, record, attempt, log, events);
      const wait = `waits up to ${waitMs / 1000} s for its end`;
      if (isFirst) log(`machine "${record.machine}" is announced by another bridge: ${wait}`);
      if (performance.now() >= endMs) throw usedBy(record.machine, attempt);
      let timer: NodeJS.Timeout | undefined;
      const pause = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, CLAIM_PAUSE_MS);
      });
      await deadline.race(pause, () => clearTimeout(timer));
    }
  }

  get instance(): string {
    return this.#record.instance;
  }

  /** Tells the others whether all names of this machine are announced. */
  async setReady(ready: boolean): Promise<void> {
    if (this.#record.ready === ready) return;
    this.#record = { ...this.#record, ready };
    await this.#renew();
  }

  /** Removes the record, so that the others need not wait for its end. */
  async close(): Promise<void> {
    if (!this.#open) return;
    this.#open = false;
    clearInterval(this.#timer);
    await this.#writing;
    if (this.#store.awaySinceMs !== undefined) return;
    try {
      await this.#store.remove(machineKey(this.#record.machine), this.#revision);
    } catch (error) {
      // It ends by itself.
      this.#log(messageOf(error));
    }
  }

  /** One write at a time, because each needs the revision of the one before. */
  #renew(): Promise<void> {
    this.#writing = this.#writing.then(async () => {
      if (!this.#open || this.#store.awaySinceMs !== undefined) return;
      try {
        await this.#write();
      } catch (error) {
        this.#log(messageOf(error));
      }
    });
    return this.#writing;
  }

  async #write(): Promise<void> {
    const key = machineKey(this.#record.machine);
    const value = encodeRecord(this.#record);
    const options = { ttlMs: defaults.machineTtlMs };
    const revision = await this.#store.update(key, value, this.#revision, options);
    if (revision !== undefined) {
      this.#revision = revision;
      return;
    }
    // It has ended meanwhile, or NATS has lost it, or another bridge has taken it. Or the answer to
    // an earlier write was lost. WHY not ready: the names may be lost, too.
    this.#record = { ...this.#record, ready: false };
    const attempt = await tryClaim(this.#store, this.#record);
    if (typeof attempt === "number") {
      this.#revision = attempt;
      this.#events.onRestored();
      return;
    }
    this.#open = false;
    clearInterval(this.#timer);
    this.#events.onLost(usedBy(this.#record.machine, attempt));
  }
}

/** The bridge that has the record of a machine, perhaps of another version. */
type Holder = Pick<MachineRecord, "place">;

/** @returns the revision, or who has it */
async function tryClaim(store: NameStore, record: MachineRecord): Promise<number | Holder> {
  const key = machineKey(record.machine);
  const value = encodeRecord(record);
  const options = { ttlMs: defaults.machineTtlMs };
  const created = await store.create(key, value, options);
  if (created !== undefined) return created;
  const found = await store.read(key);
  if (found?.value === undefined) return tryClaim(store, record);
  const other = holderIn(key, found.value);
  // One bridge at a time serves a hub, by the lock of its socket. So the other one has ended.
  if (other !== undefined && other.place !== record.place) return other;
  const updated = await store.update(key, value, found.revision, options);
  return updated ?? other ?? tryClaim(store, record);
}

/** Undefined if the record makes no sense: then no bridge has it. */
function holderIn(key: string, bytes: Uint8Array): Holder | undefined {
  try {
    return decodeMachine(key, bytes);
  } catch (error) {
    if (!(error instanceof VersionMismatch)) return undefined;
    const { version, place = `of version ${version}` } = error.other;
    return { place };
  }
}

function usedBy(machine: string, { place }: Holder): CudaIpcError {
  return new CudaIpcError(
    "BRIDGE_RUNNING",
    `Cannot announce machine "${machine}": the bridge of another hub (${place}) uses this name`,
  );
}
