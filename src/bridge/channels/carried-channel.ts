/**
 * A channel of another machine whose messages this bridge writes to a channel of the same name
 * here. All readers of this machine read that one, so the messages travel once.
 */
import { Deadline } from "../../base/deadline.js";
import { CudaIpcError, messageOf } from "../../base/errors.js";
import { defaults, limits } from "../../base/limits.js";
import type { ChannelWriter } from "../../channel/channel-writer.js";
import type { LoanedSlot } from "../../channel/loaned-slot.js";
import { JsonText } from "../../channel/message-meta.js";
import { fillPiece } from "../../gpu/transfer/piece-transfer.js";
import { addressOf, crc32At } from "../../os/host-memory.js";
import { memoryOf } from "../../ucx/ucx-worker.js";
import type { ChannelContent } from "../../wire/channel-content.js";
import type { CallResult } from "../../wire/link-messages.js";
import type { NameRecord } from "../../wire/machine-records.js";
import type { MachineLink } from "../link/machine-link.js";
import { ByteRanges } from "../transfer/byte-ranges.js";
import { copyParts } from "../transfer/copy-parts.js";
import type { FetchParts } from "../transfer/fetch.js";
import { RemoteObject } from "../transfer/remote-object.js";

type Message = CallResult<"next"> & { readonly state: "message" };

/** A call for the next message, and where its bytes arrive if it is small. */
interface Asked {
  readonly bytes: Uint8Array;
  readonly answer: Promise<CallResult<"next">>;
  /** How many bytes came. */
  readonly arrived: Promise<number>;
  cancel(): void;
}

/** Calls for messages that are under way, so that the next message is here when one is written. */
const ASKED_AT_A_TIME = 4;
const LOOK_MS = 1000;

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
  readonly #spare: Uint8Array[] = [];

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

  abort(reason: CudaIpcError): void {
    this.#stop.abort(reason);
  }

  /** Until the channel ends there, nobody reads it here, or the machine is gone for too long. */
  async #run(onBegun: () => void): Promise<string> {
    let look: NodeJS.Timeout | undefined;
    let writer: ChannelWriter | undefined;
    try {
      const { sequence } = await this.#attempt(() => this.#remote.open());
      writer = await this.#create(sequence);
      look = this.#watch(writer);
      onBegun();
      const hasGone = await this.#attempt(() => this.#carry(writer as ChannelWriter));
      if (hasGone) return "its writer is gone";
      writer.end();
      return "its writer closed it";
    } finally {
      clearInterval(look);
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

  /** Ends it when nobody has read for a while, and asks whether the other machine is there. */
  #watch(writer: ChannelWriter): NodeJS.Timeout {
    let readAtMs = performance.now();
    return setInterval(() => {
      if (writer.readers > 0) readAtMs = performance.now();
      // WHY: while slow readers hold it up, it asks for no message, and the link would end.
      this.#remote.greet();
      if (performance.now() - readAtMs < defaults.carriedUnreadMs) return;
      const message = `Cannot carry "${this.record.name}": nobody reads it here`;
      this.abort(new CudaIpcError("ABORTED", message));
    }, LOOK_MS);
  }

  /** Returns whether the writer has died there; otherwise it has closed the channel. */
  async #carry(writer: ChannelWriter): Promise<boolean> {
    const { link, channel } = await this.#remote.open();
    const asked: Asked[] = [];
    try {
      for (;;) {
        while (asked.length < ASKED_AT_A_TIME) asked.push(this.#ask(link, channel));
        const [first] = asked as [Asked, ...Asked[]];
        const answer = await first.answer;
        this.#remote.progressed();
        if (answer.state === "ended") return answer.gone;
        if (answer.state === "message") await this.#write(link, first, answer, writer);
        await this.#drop(first);
        asked.shift();
      }
    } finally {
      await Promise.all(asked.map((it) => this.#drop(it)));
    }
  }

  #ask(link: MachineLink, channel: number): Asked {
    const byteLength = Math.min(limits.carriedInlineBytes, this.#content.slotBytes);
    const bytes = this.#spare.pop() ?? new Uint8Array(new ArrayBuffer(byteLength));
    const posted = link.receiveBytes(memoryOf(bytes));
    const answer = link.call({ op: "next", channel, tag: posted.tag }, this.#deadline);
    // Handled in their turn, or not needed any more.
    answer.catch(() => {});
    posted.byteLength.catch(() => {});
    return { bytes, answer, arrived: posted.byteLength, cancel: () => posted.cancel() };
  }

  /** SAFETY: the memory is UCX's until the receive settles. */
  async #drop({ bytes, arrived, cancel }: Asked): Promise<void> {
    cancel();
    await arrived.catch(() => {});
    this.#spare.push(bytes);
  }

  async #write(
    link: MachineLink,
    asked: Asked,
    message: Message,
    writer: ChannelWriter,
  ): Promise<void> {
    const { sequence, byteLength, shape, metaIsJson } = message;
    const meta = Buffer.from(message.meta, "base64");
    if (sequence < writer.committed)
      throw this.#lies(`message ${sequence} comes after ${writer.committed - 1}`);
    if (byteLength > this.#content.slotBytes) throw this.#lies(`${byteLength} bytes in a slot`);
    if (meta.byteLength > this.#content.metaBytesMax)
      throw this.#lies(`${meta.byteLength} bytes of meta`);
    if (metaIsJson) this.#checkJson(meta);
    using slot = await writer.loan({ signal: this.#stop.signal });
    await this.#fill(link, asked, message, slot);
    try {
      // In one step with the commit, so that nothing is counted twice.
      writer.goTo(sequence);
      const size = shape === null ? { byteLength } : { shape };
      const given = metaIsJson ? JsonText.of(meta) : meta;
      slot.commit({ ...size, ...(meta.byteLength === 0 ? {} : { meta: given }) });
    } catch (error) {
      throw error instanceof RangeError ? this.#lies(error.message) : error;
    }
  }

  /** Has the bytes of the message written to the slot, and checks them. */
  async #fill(
    link: MachineLink,
    asked: Asked,
    { byteLength, export: from, crc }: Message,
    { array }: LoanedSlot,
  ): Promise<void> {
    const { name } = this.record;
    const { buffer } = array;
    const start = array.layout.byteOffset;
    if (from !== null) {
      const source = { name, link, export: from, part: "data" } as const;
      await copyParts(
        source,
        new ByteRanges(byteLength),
        (range, write) => fillPiece(buffer, start + range.byteOffset, range.byteLength, write),
        this.#deadline,
        () => this.#remote.progressed(),
      );
      // Without effect on what was copied. The end of the link gives it back, too.
      link.call({ op: "end", export: from }, this.#deadline).catch(() => {});
    } else if (byteLength > 0) {
      const { bytes } = asked;
      if (byteLength > bytes.byteLength) throw this.#lies(`${byteLength} bytes at once`);
      const arrived = await asked.arrived;
      if (arrived !== byteLength) throw this.#lies(`${byteLength} bytes, and ${arrived} came`);
      if ((await crc32At(addressOf(bytes), byteLength)) !== crc)
        throw this.#lies("another checksum than its bytes have");
      await buffer.write(start, bytes.subarray(0, byteLength));
    }
  }

  #checkJson(meta: Uint8Array): void {
    try {
      JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(meta));
    } catch {
      throw this.#lies(`${meta.byteLength} bytes of JSON that are none`);
    }
  }

  #lies(found: string): CudaIpcError {
    const { name, machine } = this.record;
    const message = `Cannot carry "${name}" from machine "${machine}": it claims ${found}`;
    return new CudaIpcError("INVALID_MESSAGE", message);
  }
}
