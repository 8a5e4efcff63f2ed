/**
 * Reads a channel that the other side of a link lends, and writes its messages to a channel here,
 * in their order. Everything that the other side says of a message is checked before it is written.
 */
import type { Deadline } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import type { ChannelWriter } from "../../channel/channel-writer.js";
import type { LoanedSlot } from "../../channel/loaned-slot.js";
import { JsonText } from "../../channel/message-meta.js";
import { fillPiece } from "../../gpu/transfer/piece-transfer.js";
import { addressOf, crc32At } from "../../os/host-memory.js";
import { memoryOf } from "../../ucx/ucx-worker.js";
import type { CallResult } from "../../wire/link-messages.js";
import type { MachineLink } from "../link/machine-link.js";
import { ByteRanges } from "../transfer/byte-ranges.js";
import { copyParts } from "../transfer/copy-parts.js";

/** A channel of the other side. */
export interface LentChannel {
  readonly name: string;
  readonly link: MachineLink;
  /** Its number on the link. */
  readonly channel: number;
  readonly slotBytes: number;
  readonly metaBytesMax: number;
}

export interface CarryRules {
  /** Its signal ends everything. */
  readonly deadline: Deadline;
  /** Messages keep their numbers, and those that are left out count as missed. */
  readonly keepsNumbers: boolean;
  /** Changes the meta of a message before it is written. */
  readonly metaOf?: ((meta: Uint8Array) => Uint8Array) | undefined;
  onProgress(): void;
}

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

export class MessageCarrier {
  readonly #source: LentChannel;
  readonly #rules: CarryRules;
  readonly #spare: Uint8Array[] = [];
  /** The lowest number that the next message may have. */
  #next = 0;

  constructor(source: LentChannel, rules: CarryRules) {
    this.#source = source;
    this.#rules = rules;
  }

  /**
   * Returns whether the writer has died there; otherwise it has closed the channel.
   * @throws PEER_GONE, INVALID_MESSAGE, ABORTED
   */
  async carry(writer: ChannelWriter): Promise<boolean> {
    if (this.#rules.keepsNumbers) this.#next = writer.committed;
    const asked: Asked[] = [];
    try {
      for (;;) {
        while (asked.length < ASKED_AT_A_TIME) asked.push(this.#ask());
        const [first] = asked as [Asked, ...Asked[]];
        const answer = await first.answer;
        this.#rules.onProgress();
        if (answer.state === "ended") return answer.gone;
        if (answer.state === "message") await this.#write(first, answer, writer);
        await this.#drop(first);
        asked.shift();
      }
    } finally {
      await Promise.all(asked.map((it) => this.#drop(it)));
    }
  }

  #ask(): Asked {
    const { link, channel, slotBytes } = this.#source;
    const byteLength = Math.min(limits.carriedInlineBytes, slotBytes);
    const bytes = this.#spare.pop() ?? new Uint8Array(new ArrayBuffer(byteLength));
    const posted = link.receiveBytes(memoryOf(bytes));
    const answer = link.call({ op: "next", channel, tag: posted.tag }, this.#rules.deadline);
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

  async #write(asked: Asked, message: Message, writer: ChannelWriter): Promise<void> {
    const { slotBytes, metaBytesMax } = this.#source;
    const { deadline, keepsNumbers, metaOf } = this.#rules;
    const { sequence, byteLength, shape, metaIsJson } = message;
    const meta = Buffer.from(message.meta, "base64");
    if (sequence < this.#next)
      throw this.#lies(`message ${sequence} comes after ${this.#next - 1}`);
    if (byteLength > slotBytes) throw this.#lies(`${byteLength} bytes in a slot`);
    if (meta.byteLength > metaBytesMax) throw this.#lies(`${meta.byteLength} bytes of meta`);
    if (metaIsJson) this.#checkJson(meta);
    using slot = await writer.loan({ signal: deadline.signal });
    await this.#fill(asked, message, slot);
    try {
      // In one step with the commit, so that nothing is counted twice.
      if (keepsNumbers) writer.goTo(sequence);
      const size = shape === null ? { byteLength } : { shape };
      const given = metaIsJson ? JsonText.of(meta) : (metaOf?.(meta) ?? meta);
      slot.commit({ ...size, ...(meta.byteLength === 0 ? {} : { meta: given }) });
    } catch (error) {
      throw error instanceof RangeError ? this.#lies(error.message) : error;
    }
    this.#next = sequence + 1;
  }

  /** Has the bytes of the message written to the slot, and checks them. */
  async #fill(
    asked: Asked,
    { byteLength, export: from, crc }: Message,
    { array }: LoanedSlot,
  ): Promise<void> {
    const { name, link } = this.#source;
    const { deadline, onProgress } = this.#rules;
    const { buffer } = array;
    const start = array.layout.byteOffset;
    if (from !== null) {
      const source = { name, link, export: from, part: "data" } as const;
      await copyParts(
        source,
        new ByteRanges(byteLength),
        (range, write) => fillPiece(buffer, start + range.byteOffset, range.byteLength, write),
        deadline,
        onProgress,
      );
      // Without effect on what was copied. The end of the link gives it back, too.
      link.call({ op: "end", export: from }, deadline).catch(() => {});
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
    const { name, link } = this.#source;
    const message = `Cannot carry "${name}" from machine "${link.machine}": it claims ${found}`;
    return new CudaIpcError("INVALID_MESSAGE", message);
  }
}
