/**
 * The fetches of a bridge, one for each name at a time, and the waits of those who asked. A fetch
 * that nobody waits for any more is given up, unless all its bytes are here.
 */
import { Deadline } from "../../base/deadline.js";
import { CudaIpcError, hasCode, messageOf } from "../../base/errors.js";
import type { Hub } from "../../client/hub.js";
import type { ReplicaOf } from "../../wire/descriptor.js";
import type { NameRecord } from "../../wire/machine-records.js";
import type { ObjectSummary } from "../../wire/messages.js";
import type { CarriedChannel } from "../channels/carried-channel.js";
import { ChannelTable } from "../channels/channel-table.js";
import { peerGone } from "../link/peer-gone.js";
import type { Directory } from "../names/directory.js";
import { Fetch, type FetchParts } from "./fetch.js";
import { checkIsNoFalseCopy, isCopyOf, originalOf } from "./own-copy.js";

/** What a wait for a name has come to. */
export type PullState =
  /** `namesAway`: NATS does not answer, so nothing new is found. */
  | { readonly state: "waiting"; readonly namesAway: boolean }
  | {
      readonly state: "fetching";
      readonly machine: string;
      readonly doneBytes: number;
      readonly totalBytes: number;
    }
  | { readonly state: "done"; readonly machine: string | null; readonly byteLength: number };

export interface PullOptions {
  readonly wait: boolean;
  readonly signal: AbortSignal;
  onState(state: PullState): void;
}

/** How often a waiting pull looks at the hub, where another process may publish the name. */
const LOOK_MS = 500;
/** Fetches of one pull, if the object is replaced each time before it is copied. */
const ATTEMPTS = 5;

interface Shared {
  readonly fetch: Fetch;
  waiters: number;
  /** Nobody waited for it any more, so it ends. */
  isGivenUp: boolean;
}

export class FetchTable {
  readonly #machine: string;
  readonly #parts: FetchParts;
  readonly #channels: ChannelTable;
  readonly #absence: () => string;
  readonly #log: (line: string) => void;
  readonly #fetches = new Map<string, Shared>();

  /** @param absence says why a name may be missing, as the end of a sentence; or nothing */
  constructor(
    machine: string,
    parts: FetchParts,
    absence: () => string,
    log: (line: string) => void,
  ) {
    this.#machine = machine;
    this.#parts = parts;
    this.#channels = new ChannelTable(parts, log);
    this.#absence = absence;
    this.#log = log;
  }

  get fetches(): readonly Fetch[] {
    return [...this.#fetches.values()].map(({ fetch }) => fetch);
  }

  get carried(): readonly CarriedChannel[] {
    return this.#channels.carried;
  }

  /**
   * Resolves when this machine's hub has the name.
   * @throws NAME_TAKEN if another user's object claims to be a copy; NOT_FOUND, PEER_GONE if `wait`
   * is false; PROTOCOL_MISMATCH if only a bridge of another version announces it; ABORTED; what the
   * fetch throws
   */
  async pull(name: string, options: PullOptions): Promise<PullState & { state: "done" }> {
    const { wait, signal, onState } = options;
    for (let attempt = 1; ; ) {
      signal.throwIfAborted();
      const local = await localObject(this.#parts.hub, name);
      const record = this.#parts.directory.find(name);
      if (local !== undefined) checkIsNoFalseCopy(local, this.#parts.uid);
      if (local !== undefined && this.#isGood(local, record)) {
        const machine = this.#originalOf(local)?.machine ?? null;
        return { state: "done", machine, byteLength: local.descriptor.byteLength };
      }
      if (record !== undefined && this.#mayFetch(local, record)) {
        try {
          await this.#join(record, local?.object, options);
        } catch (error) {
          // The original was replaced, or a process of this machine has taken the name.
          const isNews = hasCode(error, "STALE_HANDLE") || hasCode(error, "NAME_TAKEN");
          if (!isNews || attempt >= ATTEMPTS) throw error;
          attempt += 1;
          await pauseUntilChange(this.#parts.directory, name, signal);
        }
        continue;
      }
      const mismatch = this.#parts.directory.mismatchOf(`fetch "${name}"`, name);
      if (mismatch !== undefined) throw mismatch;
      if (!wait) throw this.#missing(name);
      onState({ state: "waiting", namesAway: this.#absence() !== "" });
      await pauseUntilChange(this.#parts.directory, name, signal);
    }
  }

  /** Fetches an array or bundle for nobody. Undefined if its name is being fetched. */
  refresh(record: NameRecord): Promise<void> | undefined {
    if (this.#fetches.has(record.name)) return undefined;
    const { signal } = new AbortController();
    return this.#refresh(record, { wait: false, signal, onState: () => {} });
  }

  close(reason: CudaIpcError): void {
    for (const { fetch } of this.#fetches.values()) fetch.abort(reason);
    this.#channels.close(reason);
  }

  async #refresh(record: NameRecord, options: PullOptions): Promise<void> {
    const local = await localObject(this.#parts.hub, record.name);
    if (this.#mayFetch(local, record)) await this.#join(record, local?.object, options);
  }

  /** Only a copy is replaced by a copy. A channel ends by itself. */
  #mayFetch(local: ObjectSummary | undefined, record: NameRecord): boolean {
    if (local !== undefined && record.descriptor.content.kind === "channel") return false;
    const isFree = local === undefined || this.#originalOf(local) !== undefined;
    return isFree && record.machine !== this.#machine;
  }

  /** Whether a local object is what a pull wants: this machine's own, or the latest copy. */
  #isGood(local: ObjectSummary, record: NameRecord | undefined): boolean {
    if (!local.published) return false;
    const original = this.#originalOf(local);
    return original === undefined || record === undefined || isCopyOf(original, record);
  }

  #originalOf(local: ObjectSummary): ReplicaOf | undefined {
    return originalOf(local, this.#parts.uid);
  }

  /** @param replacedObject an earlier copy of the name on this machine */
  async #join(
    record: NameRecord,
    replacedObject: number | undefined,
    options: PullOptions,
  ): Promise<void> {
    const { content } = record.descriptor;
    if (content.kind === "channel") {
      const deadline = new Deadline(`carry "${record.name}"`, options, Number.POSITIVE_INFINITY);
      return this.#channels.join(record, content, deadline);
    }
    const earlier = this.#fetches.get(record.name);
    if (earlier?.isGivenUp === true) {
      const deadline = new Deadline(`copy "${record.name}"`, options, Number.POSITIVE_INFINITY);
      const ended = earlier.fetch.done.catch(() => {});
      // The caller looks again, and finds that it has ended.
      return deadline.race(ended, () => {});
    }
    const shared = this.#shared(record, replacedObject);
    const { fetch } = shared;
    const { machine } = fetch.record;
    const report = () => {
      const { doneBytes, totalBytes } = fetch;
      options.onState({ state: "fetching", machine, doneBytes, totalBytes });
    };
    shared.waiters += 1;
    const stop = fetch.onProgress(report);
    try {
      report();
      const deadline = new Deadline(`copy "${record.name}"`, options, Number.POSITIVE_INFINITY);
      await deadline.race(fetch.done, () => {});
    } finally {
      stop();
      shared.waiters -= 1;
      if (shared.waiters === 0) {
        shared.isGivenUp = true;
        const message = `Cannot copy "${record.name}": nobody waits for it`;
        fetch.abort(new CudaIpcError("ABORTED", message));
      }
    }
  }

  #shared(record: NameRecord, replacedObject: number | undefined): Shared {
    const { name } = record;
    const found = this.#fetches.get(name);
    if (found !== undefined) return found;
    const fetch = new Fetch(this.#parts, record, replacedObject);
    const shared = { fetch, waiters: 0, isGivenUp: false };
    this.#fetches.set(name, shared);
    const { machine } = record;
    fetch.done.then(
      () => {
        this.#fetches.delete(name);
        this.#log(`copied: "${name}" from machine "${machine}"`);
      },
      (error) => {
        this.#fetches.delete(name);
        this.#log(`not copied: "${name}" from machine "${machine}": ${messageOf(error)}`);
      },
    );
    return shared;
  }

  #missing(name: string): CudaIpcError {
    const machine = this.#parts.directory.entry(name)?.record.machine;
    if (machine !== undefined && machine !== this.#machine)
      return peerGone(machine, `its bridge, which announced "${name}", is gone`);
    const found = `no machine has announced it${this.#absence()}`;
    return new CudaIpcError("NOT_FOUND", `Cannot fetch "${name}": ${found}`);
  }
}

async function localObject(hub: Hub, name: string): Promise<ObjectSummary | undefined> {
  try {
    return (await hub.inspect(name)).object;
  } catch (error) {
    if (hasCode(error, "NOT_FOUND")) return undefined;
    throw error;
  }
}

/** Until the name is announced anew, or some time has passed. @throws the reason of the signal */
async function pauseUntilChange(
  directory: Directory,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  const before = directory.find(name);
  await new Promise<void>((resolve) => {
    const end = () => {
      clearTimeout(timer);
      stop();
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, LOOK_MS);
    const stop = directory.onChange(() => {
      if (directory.find(name) !== before) end();
    });
    signal.addEventListener("abort", end, { once: true });
  });
  signal.throwIfAborted();
}
