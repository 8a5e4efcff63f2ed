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
import type { CarriedMessage } from "../../wire/carried-frames.js";
import type { ArrivedMessage } from "../link/channel-read.js";
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

/** Messages under way, so that the next one is here when one is written. */
const UNDER_WAY = limits.carriedMessagesMax;
/** Written messages for which further ones are asked for in one frame. */
const ASKED_TOGETHER = UNDER_WAY / 2;

export class MessageCarrier {
  readonly #source: LentChannel;
  readonly #rules: CarryRules;
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
    const { link, channel } = this.#source;
    const { keepsNumbers, deadline, onProgress } = this.#rules;
    if (keepsNumbers) this.#next = writer.committed;
    const read = link.read(channel, UNDER_WAY, deadline);
    try {
      for (let written = 1; ; written += 1) {
        const found = await read.next();
        onProgress();
        if ("gone" in found) {
          // Readers here miss what was overwritten there after the last message.
          if (keepsNumbers && found.sequence > this.#next) writer.goTo(found.sequence);
          return found.gone;
        }
        await this.#write(found, writer);
        if (written % ASKED_TOGETHER === 0) read.more(ASKED_TOGETHER);
      }
    } finally {
      // Of what still comes nothing is wanted.
      read.end({ failure: undefined });
    }
  }

  async #write({ message, bytes }: ArrivedMessage, writer: ChannelWriter): Promise<void> {
    const { slotBytes, metaBytesMax } = this.#source;
    const { deadline, keepsNumbers, metaOf, onProgress } = this.#rules;
    const { sequence, byteLength, shape, meta, metaIsJson } = message;
    if (sequence < this.#next)
      throw this.#lies(`message ${sequence} comes after ${this.#next - 1}`);
    if (byteLength > slotBytes) throw this.#lies(`${byteLength} bytes in a slot`);
    if (meta.byteLength > metaBytesMax) throw this.#lies(`${meta.byteLength} bytes of meta`);
    if (metaIsJson && metaOf !== undefined) throw this.#lies("JSON in place of a service's meta");
    using slot = await writer.loan({ signal: deadline.signal });
    // While readers here held all slots, nothing was missing of the other machine.
    onProgress();
    await this.#fill(message, bytes, slot);
    try {
      // In one step with the commit, so that nothing is counted twice.
      if (keepsNumbers) writer.goTo(sequence);
      const size = shape === undefined ? { byteLength } : { shape };
      const given = metaIsJson ? JsonText.of(meta) : (metaOf?.(meta) ?? meta);
      slot.commit({ ...size, meta: given });
    } catch (error) {
      throw error instanceof RangeError ? this.#lies(error.message) : error;
    }
    this.#next = sequence + 1;
  }

  /** Has the bytes of the message written to the slot. Small ones came in a sealed frame. */
  async #fill(
    { byteLength, export: from }: CarriedMessage,
    bytes: Uint8Array,
    slot: LoanedSlot,
  ): Promise<void> {
    const { name, link } = this.#source;
    const { deadline, onProgress } = this.#rules;
    const { buffer, layout } = slot.array;
    const start = layout.byteOffset;
    if (from !== undefined) {
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
      return;
    }
    if (bytes.byteLength !== byteLength)
      throw this.#lies(`${byteLength} bytes, and ${bytes.byteLength} came`);
    if (buffer.device.cpuVisible) slot.bytes.set(bytes);
    else if (byteLength > 0) await buffer.write(start, bytes);
  }

  #lies(found: string): CudaIpcError {
    const { name, link } = this.#source;
    const message = `Cannot carry "${name}" from machine "${link.machine}": it claims ${found}`;
    return new CudaIpcError("INVALID_MESSAGE", message);
  }
}
