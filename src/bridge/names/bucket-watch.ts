/**
 * Tells a watcher what the bucket of names has, and each change. Begins anew when the server was
 * away or the bucket is gone, and tries until it succeeds: a server may take connections before its
 * JetStream answers, as a cluster without a leader does.
 */
import { messageOf } from "../../base/errors.js";
import type { NatsClient } from "./load-nats.js";
import type { NameEntry, NameWatcher } from "./name-store.js";

export type Bucket = Awaited<ReturnType<InstanceType<NatsClient["kv"]["Kvm"]>["create"]>>;
type Watch = Awaited<ReturnType<Bucket["watch"]>>;

export interface BucketWatchParts {
  /** Opens the bucket, which the server may have lost. @throws NATS_UNAVAILABLE */
  open(): Promise<Bucket>;
  /** Turns an error of NATS into one of this package. */
  explained(error: unknown): unknown;
  /** The watch has begun anew. */
  onBegun(): void;
  /** It could not begin, and is tried again. */
  onFailed(): void;
  log(line: string): void;
}

const AGAIN_PAUSE_MS = 500;

export class BucketWatch {
  readonly #parts: BucketWatchParts;
  readonly #watcher: NameWatcher;
  #watch: Watch | undefined;
  /** Whether it must begin anew. */
  #isWanted = false;
  #isTrying = false;
  #open = true;

  constructor(parts: BucketWatchParts, watcher: NameWatcher) {
    this.#parts = parts;
    this.#watcher = watcher;
  }

  /** Begins for the first time. @throws NATS_UNAVAILABLE */
  async begin(): Promise<void> {
    this.#isTrying = true;
    try {
      await this.#begin();
    } finally {
      this.#isTrying = false;
      if (this.#isWanted) this.again();
    }
  }

  /** Begins anew as soon as the server lets it. */
  again(): void {
    this.#isWanted = true;
    if (this.#isTrying) return;
    this.#isTrying = true;
    void this.#try();
  }

  close(): void {
    this.#open = false;
    this.#end();
  }

  /** From the first entry. One call at a time. */
  async #begin(): Promise<void> {
    this.#end();
    const bucket = await this.#parts.open();
    try {
      const { state } = (await bucket.status()).streamInfo;
      const watch = await bucket.watch();
      if (!this.#open) return watch.stop();
      this.#watch = watch;
      this.#watcher.onRestart();
      if (state.messages === 0) this.#watcher.onCurrent();
      void this.#follow(watch, state.messages === 0 ? 0 : state.last_seq);
    } catch (error) {
      throw this.#parts.explained(error);
    }
  }

  async #try(): Promise<void> {
    let told: string | undefined;
    while (this.#open && this.#isWanted) {
      this.#isWanted = false;
      try {
        await this.#begin();
        this.#parts.onBegun();
      } catch (error) {
        this.#isWanted = true;
        const failure = messageOf(error);
        if (this.#open && failure !== told) this.#parts.log(failure);
        told = failure;
        this.#parts.onFailed();
        await pause();
      }
    }
    this.#isTrying = false;
  }

  #end(): void {
    const watch = this.#watch;
    this.#watch = undefined;
    watch?.stop();
  }

  /** @param currentFrom the revision at which the watcher knows what was there at the start */
  async #follow(watch: Watch, currentFrom: number): Promise<void> {
    let isCurrent = currentFrom === 0;
    try {
      for await (const entry of watch) {
        if (this.#watch !== watch) return;
        this.#watcher.onEntry(entryOf(entry));
        if (isCurrent || entry.revision < currentFrom) continue;
        isCurrent = true;
        this.#watcher.onCurrent();
      }
    } catch (error) {
      this.#parts.log(`NATS: ${messageOf(error)}`);
    }
    if (this.#watch !== watch) return;
    // The bucket was removed under the watch.
    await pause();
    if (this.#watch === watch) this.again();
  }
}

export function entryOf(entry: {
  readonly key: string;
  readonly revision: number;
  readonly operation: string;
  readonly value: Uint8Array;
}): NameEntry {
  const { key, revision, operation, value } = entry;
  return { key, revision, value: operation === "PUT" ? value : undefined };
}

/** The bridge may end meanwhile. */
function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, AGAIN_PAUSE_MS).unref());
}
