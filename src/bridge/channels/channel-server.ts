/**
 * Reads channels of this machine for the bridge of another one, over one link. A channel has one
 * reader for that machine, however many read it there.
 */
import { CudaIpcError, hasCode } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import { releaseAll } from "../../base/scope.js";
import type { ChannelReader } from "../../channel/channel-reader.js";
import type { ReceivedSlot } from "../../channel/received-slot.js";
import type { Hub } from "../../client/hub.js";
import type { MoreMessages } from "../../wire/carried-frames.js";
import type { CallResult } from "../../wire/link-messages.js";
import type { NameRecord } from "../../wire/machine-records.js";
import type { LentReader } from "../link/link-server.js";
import type { MachineLink } from "../link/machine-link.js";
import type { CallOf, Export } from "../transfer/export-server.js";
import { openAnnounced } from "../transfer/stale-object.js";
import { Credit } from "./credit.js";

export interface ChannelServerParts {
  /** What this machine has announced under a name; nothing else is served. */
  announced(name: string): NameRecord | undefined;
  /** Lets the other machine copy a message. Returns the export's number. */
  add(message: Export): number;
  /** Ends an export, if it has not ended. */
  end(message: number): void;
  link(): MachineLink;
}

interface Joined {
  readonly lent: LentReader;
  /** Messages that the other machine copies. */
  readonly exported: Set<number>;
  /** Called when one of them has ended. */
  onExportEnd: () => void;
  /** While it is read. */
  credit: Credit | undefined;
}

const NO_INDEX = new Uint8Array(new ArrayBuffer(0));

export class ChannelServer {
  readonly #hub: Hub;
  readonly #parts: ChannelServerParts;
  readonly #joined = new Map<number, Joined>();
  /** By the ids of the calls. */
  readonly #reads = new Map<number, Credit>();
  /** Those of `join`. All others belong to services. */
  readonly #carried = new Map<number, LentReader>();
  #opening = 0;
  #lastId = 0;
  #open = true;

  constructor(hub: Hub, parts: ChannelServerParts) {
    this.#hub = hub;
    this.#parts = parts;
  }

  /** The channels that are carried, with the messages since they were joined. */
  get carried(): readonly { readonly name: string; readonly messages: number }[] {
    return [...this.#carried.values()].map(({ reader: { label, received, missed } }) => ({
      name: label,
      messages: received + missed,
    }));
  }

  async join({ name, object }: CallOf<"join">): Promise<CallResult<"join">> {
    const attempt = `carry "${name}" to another machine`;
    const record = this.#parts.announced(name);
    if (record === undefined)
      throw new CudaIpcError("NOT_FOUND", `Cannot ${attempt}: it is not announced`);
    let sequence = 0;
    const { channel, lent } = await this.lendOpened(attempt, async () => {
      const { committed, reader } = await openAnnounced(attempt, () => this.#read(name));
      // Messages that came during the open count as missed.
      sequence = committed;
      try {
        // After the open, because a later channel may have taken the name before it.
        const now = (await this.#hub.inspect(name)).object.object;
        if (now !== object || record.object !== object) {
          const found = `object ${object} has been replaced by ${now}`;
          throw new CudaIpcError("STALE_HANDLE", `Cannot ${attempt}: ${found}`);
        }
        return { reader, close: () => reader.close() };
      } catch (error) {
        reader.close();
        throw error;
      }
    });
    this.#carried.set(channel, lent);
    return { channel, sequence };
  }

  /**
   * Lends what `open` opens.
   * @throws LIMIT_EXCEEDED; CLOSED if the link has ended meanwhile
   */
  async lendOpened<Lent extends LentReader>(
    attempt: string,
    open: () => Promise<Lent>,
  ): Promise<{ readonly channel: number; readonly lent: Lent }> {
    if (this.#joined.size + this.#opening >= limits.exportsPerLinkMax) {
      const found = `${limits.exportsPerLinkMax} are carried already (exportsPerLinkMax)`;
      throw new CudaIpcError("LIMIT_EXCEEDED", `Cannot ${attempt}: ${found}`);
    }
    this.#opening += 1;
    try {
      const lent = await open();
      return { channel: this.lend(lent), lent };
    } finally {
      this.#opening -= 1;
    }
  }

  /** Lets the other machine read a channel. Takes it over. @throws CLOSED */
  lend(lent: LentReader): number {
    if (!this.#open) {
      lent.close();
      const found = "the link has ended";
      throw new CudaIpcError("CLOSED", `Cannot carry "${lent.reader.label}": ${found}`);
    }
    this.#lastId += 1;
    const exported = new Set<number>();
    this.#joined.set(this.#lastId, { lent, exported, onExportEnd: () => {}, credit: undefined });
    return this.#lastId;
  }

  /** Ends a loan, if it has not ended. */
  takeBack(channel: number): void {
    const joined = this.#joined.get(channel);
    if (joined === undefined) return;
    this.#joined.delete(channel);
    this.#carried.delete(channel);
    const ends = [...joined.exported].map((message) => () => this.#parts.end(message));
    releaseAll([...ends, () => close(joined)]);
  }

  /**
   * Sends the messages of a channel, as many as are asked for, until it ends.
   * @throws NOT_FOUND, IN_USE; what the reader throws
   */
  async read({ id, channel, count }: CallOf<"read">): Promise<CallResult<"read">> {
    const joined = this.#find(channel);
    const { reader } = joined.lent;
    if (joined.credit !== undefined) {
      const found = "another call reads it";
      throw new CudaIpcError("IN_USE", `Cannot carry "${reader.label}": ${found}`);
    }
    const credit = new Credit(count, limits.carriedMessagesMax);
    joined.credit = credit;
    this.#reads.set(id, credit);
    try {
      for (;;) {
        if (!credit.tryTake()) await credit.take();
        this.#checkExported(joined);
        while (holdsEnough(joined)) await exportEnd(joined);
        const slot = await reader.next();
        if (slot === undefined) return { gone: false, sequence: reader.committed };
        await this.#give(id, joined, slot);
      }
    } catch (error) {
      if (hasCode(error, "PEER_GONE")) return { gone: true, sequence: reader.committed };
      throw error;
    } finally {
      joined.credit = undefined;
      this.#reads.delete(id);
    }
  }

  /** @throws LIMIT_EXCEEDED */
  more({ read, count }: MoreMessages): void {
    // A read that has ended needs none.
    this.#reads.get(read)?.add(count);
  }

  leave({ channel }: CallOf<"leave">): CallResult<"leave"> {
    this.#find(channel);
    this.takeBack(channel);
    return {};
  }

  async #read(name: string): Promise<{ committed: number; reader: ChannelReader }> {
    using observer = await this.#hub.observeChannel(name, { wait: false });
    const { committed } = observer.statistics();
    return { committed, reader: await this.#hub.openChannel(name, { wait: false, spinMs: 0 }) };
  }

  /** Leaves all channels. */
  close(): void {
    this.#open = false;
    const open = [...this.#joined.values()];
    this.#joined.clear();
    this.#carried.clear();
    releaseAll(open.map((joined) => () => close(joined)));
  }

  #find(channel: number): Joined {
    const found = this.#joined.get(channel);
    if (found !== undefined) return found;
    throw new CudaIpcError("NOT_FOUND", `Cannot read channel ${channel}: it is not joined`);
  }

  /** Before a message is taken, because it would be lost. @throws LIMIT_EXCEEDED */
  #checkExported({ lent, exported }: Joined): void {
    if (exported.size < limits.carriedMessagesMax) return;
    const found = `${exported.size} of its messages are copied already (carriedMessagesMax)`;
    throw new CudaIpcError("LIMIT_EXCEEDED", `Cannot carry "${lent.reader.label}": ${found}`);
  }

  async #give(read: number, joined: Joined, slot: ReceivedSlot): Promise<void> {
    const { reader, metaOf } = joined.lent;
    let isExported = false;
    try {
      const { sequence, byteLength, array } = slot;
      const isInline = byteLength <= limits.carriedInlineBytes;
      const message = {
        read,
        sequence,
        byteLength,
        shape: isSame(array.shape, reader.shape) ? undefined : array.shape,
        meta: metaOf?.(slot.meta) ?? slot.meta,
        metaIsJson: slot.metaIsJson,
        export: isInline ? undefined : this.#export(joined, slot),
      };
      isExported = !isInline;
      const bytes = isInline ? await bytesOf(slot) : undefined;
      await this.#parts.link().sendMessage(message, bytes);
    } finally {
      if (!isExported) slot.release();
    }
  }

  /** Takes the slot over. */
  #export(joined: Joined, slot: ReceivedSlot): number {
    const { exported } = joined;
    const { array, byteLength } = slot;
    const { byteOffset } = array.layout;
    const id = this.#parts.add({
      ...{ buffer: array.buffer, byteOffset, byteLength, index: NO_INDEX },
      close: () => {
        exported.delete(id);
        joined.onExportEnd();
        slot.release();
      },
    });
    exported.add(id);
    return id;
  }
}

function close({ lent, credit }: Joined): void {
  releaseAll([() => lent.close(), () => credit?.close()]);
}

/**
 * A reader that may be overtaken holds at most half of the slots. WHY: if it held all, its writer
 * would wait for the other machine, which a writer with "drop-oldest" never wants.
 */
function holdsEnough({ lent: { reader }, exported }: Joined): boolean {
  return reader.lossy && exported.size >= Math.max(1, Math.floor(reader.slots / 2));
}

function exportEnd(joined: Joined): Promise<void> {
  return new Promise((resolve) => {
    joined.onExportEnd = resolve;
  });
}

/** The bytes of a small message: in place if the CPU sees them. */
async function bytesOf(slot: ReceivedSlot): Promise<Uint8Array> {
  const { array, byteLength } = slot;
  if (array.device.cpuVisible) return slot.bytes;
  const bytes = new Uint8Array(byteLength);
  await array.buffer.read(array.layout.byteOffset, bytes);
  return bytes;
}

function isSame(one: readonly number[], other: readonly number[]): boolean {
  return one.length === other.length && one.every((length, axis) => length === other[axis]);
}
