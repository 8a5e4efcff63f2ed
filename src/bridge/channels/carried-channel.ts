/**
 * A channel of another machine whose messages this bridge writes to a channel of the same name
 * here. All readers of this machine read that one, so the messages travel once.
 */
import { Deadline } from "../../base/deadline.js";
import { CudaIpcError, messageOf } from "../../base/errors.js";
import type { ChannelWriter } from "../../channel/channel-writer.js";
import type { ChannelContent } from "../../wire/channel-content.js";
import type { CallResult } from "../../wire/link-messages.js";
import type { NameRecord } from "../../wire/machine-records.js";
import type { FetchParts } from "../transfer/fetch.js";
import { RemoteObject } from "../transfer/remote-object.js";
import { MessageCarrier } from "./message-carrier.js";
import { UnreadWatch } from "./unread-watch.js";

export class CarriedChannel {
  readonly record: NameRecord;
  /** Resolves when this machine's hub has the channel. Rejects if it cannot. */
  readonly begun: Promise<void>;
  /** Resolves with the reason when no more messages are carried. */
  readonly ended: Promise<string>;
  readonly #parts: FetchParts;
  readonly #content: ChannelContent;
  readonly #stop = new AbortController();
  readonly #deadline: Deadline;
  readonly #remote: RemoteObject<CallResult<"join">>;
  #writer: ChannelWriter | undefined;
  #firstSequence = 0;

  constructor(parts: FetchParts, record: NameRecord, content: ChannelContent) {
    const { name, object } = record;
    const { signal } = this.#stop;
    this.record = record;
    this.#parts = parts;
    this.#content = content;
    this.#deadline = new Deadline(`carry "${name}"`, { signal }, Number.POSITIVE_INFINITY);
    this.#remote = new RemoteObject(record, parts, signal, {
      verb: "carry",
      open: (link, deadline) => link.call({ op: "join", name, object }, deadline),
      end: (link, { channel }, deadline) => link.call({ op: "leave", channel }, deadline),
    });
    let onBegun = () => {};
    const begun = new Promise<void>((resolve) => {
      onBegun = resolve;
    });
    const run = this.#run(() => onBegun());
    this.begun = Promise.race([begun, run.then(() => {})]);
    // Each waiter handles the failure itself, and there may be none.
    this.begun.catch(() => {});
    this.ended = run.catch(messageOf);
  }

  /** Whether this machine's hub has had the channel. */
  get isBegun(): boolean {
    return this.#writer !== undefined;
  }

  /** Messages since it was joined, with those that were missed. */
  get messages(): number {
    return (this.#writer?.committed ?? this.#firstSequence) - this.#firstSequence;
  }

  abort(reason: CudaIpcError): void {
    this.#stop.abort(reason);
  }

  /** Until the channel ends there, nobody reads it here, or the machine is gone for too long. */
  async #run(onBegun: () => void): Promise<string> {
    let unread: UnreadWatch | undefined;
    let writer: ChannelWriter | undefined;
    try {
      const { sequence } = await this.#attempt(() => this.#remote.open());
      writer = await this.#create(sequence);
      this.#firstSequence = sequence;
      this.#writer = writer;
      unread = new UnreadWatch(writer, () => this.#endUnread());
      onBegun();
      const hasGone = await this.#attempt(() => this.#carry(writer as ChannelWriter));
      if (hasGone) return "its writer is gone";
      writer.end();
      return "its writer closed it";
    } finally {
      unread?.[Symbol.dispose]();
      // Readers learn that this was not the end that the writer meant. Nothing after `end`.
      writer?.abandon();
      this.#remote.end();
    }
  }

  /** Repeats what fails because the machine is away for a while. */
  async #attempt<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        this.#deadline.check();
        await this.#remote.recover(error);
      }
    }
  }

  #create(firstSequence: number): Promise<ChannelWriter> {
    const { name, machine, object, sharedWith } = this.record;
    const { hub } = this.#parts;
    const { dtype, shape, slots, readersMax, metaBytesMax, whenFull } = this.#content;
    return hub.createCarriedChannel(name, hub.device(this.#parts.device), {
      ...{ dtype, shape, slots, readersMax, metaBytesMax },
      // What the writer there does when its slots are full, it does for this bridge, too.
      whenFull: whenFull === "drop-oldest" ? "drop-oldest" : "wait",
      sharing: { with: sharedWith },
      replicaOf: { machine, object },
      firstSequence,
      signal: this.#stop.signal,
    });
  }

  #endUnread(): void {
    const message = `Cannot carry "${this.record.name}": nobody reads it here`;
    this.abort(new CudaIpcError("ABORTED", message));
  }

  /** Returns whether the writer has died there; otherwise it has closed the channel. */
  async #carry(writer: ChannelWriter): Promise<boolean> {
    const { link, channel } = await this.#remote.open();
    const { slotBytes, metaBytesMax } = this.#content;
    const source = { name: this.record.name, link, channel, slotBytes, metaBytesMax };
    const carrier = new MessageCarrier(source, {
      deadline: this.#deadline,
      keepsNumbers: true,
      onProgress: () => this.#remote.progressed(),
    });
    try {
      return await carrier.carry(writer);
    } catch (error) {
      // Nothing may have been written for long, but until then the machine was there.
      this.#remote.progressed(link.heardMs);
      throw error;
    }
  }
}
