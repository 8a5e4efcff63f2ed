/** What a bridge needs of NATS. Tests have a twin without a server. */
import type { Deadline } from "../../base/deadline.js";

/** A change of one key. Changes come in the order of their revisions. */
export interface NameEntry {
  readonly key: string;
  readonly revision: number;
  /** Undefined if the key was removed, or its time is up. */
  readonly value: Uint8Array | undefined;
}

export interface NameWatcher {
  /** All entries follow from the beginning. */
  onRestart(): void;
  onEntry(entry: NameEntry): void;
  /** Every entry that was there at the restart has been told. */
  onCurrent(): void;
}

export interface WriteOptions {
  /** The key removes itself after this time. */
  readonly ttlMs?: number;
}

export interface NameStore {
  /** Since when NATS does not answer, on the clock of `performance.now`. */
  readonly awaySinceMs: number | undefined;
  /** Creates a key. Returns its revision, or undefined if it exists. */
  create(key: string, value: Uint8Array, options?: WriteOptions): Promise<number | undefined>;
  /** Replaces a key of this revision. Returns the next one, or undefined if it has changed. */
  update(
    key: string,
    value: Uint8Array,
    revision: number,
    options?: WriteOptions,
  ): Promise<number | undefined>;
  /** Removes a key of this revision. Returns false if it has changed. */
  remove(key: string, revision: number): Promise<boolean>;
  read(key: string): Promise<NameEntry | undefined>;
  watch(watcher: NameWatcher): Promise<void>;
  /** Tells the watcher everything anew, because the bucket may be another one by now. */
  watchAnew(): void;
  /** Asks the one process that serves this subject. @throws PEER_GONE if none does */
  ask(subject: string, bytes: Uint8Array, deadline: Deadline): Promise<Uint8Array>;
  serve(subject: string, answer: (bytes: Uint8Array) => Promise<Uint8Array>): void;
  close(): Promise<void>;
}
