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
import { takePiece } from "../../gpu/transfer/piece-transfer.js";
import { crc32At } from "../../os/host-memory.js";
import type { UcxMemory } from "../../ucx/ucx-worker.js";
import type { CallResult } from "../../wire/link-messages.js";
import type { NameRecord } from "../../wire/machine-records.js";
import type { CallOf, Export } from "../transfer/export-server.js";

export interface ChannelServerParts {
  /** What this machine has announced under a name; nothing else is served. */
  announced(name: string): NameRecord | undefined;
  sendBytes(bytes: UcxMemory, tag: string): Promise<void>;
  /** Lets the other machine copy a message. Returns the export's number. */
  add(message: Export): number;
}

interface Joined {
  readonly reader: ChannelReader;
  /** Settles when all calls so far are answered. */
  turn: Promise<unknown>;
}

type Answer = CallResult<"next">;

/** A call is answered after this time, so that the other side sees that this one is there. */
const ANSWER_MS = 5000;
const NO_INDEX = new Uint8Array(new ArrayBuffer(0));

export class ChannelServer {
  readonly #hub: Hub;
  readonly #parts: ChannelServerParts;
  readonly #joined = new Map<number, Joined>();
  #opening = 0;
  #lastId = 0;
  #open = true;

  constructor(hub: Hub, parts: ChannelServerParts) {
    this.#hub = hub;
    this.#parts = parts;
  }

  async join({ name, object }: CallOf<"join">): Promise<CallResult<"join">> {
    const attempt = `carry "${name}" to another machine`;
    const record = this.#parts.announced(name);
    if (record === undefined)
      throw new CudaIpcError("NOT_FOUND", `Cannot ${attempt}: it is not announced`);
    if (this.#joined.size + this.#opening >= limits.exportsPerLinkMax) {
      const found = `${limits.exportsPerLinkMax} are carried already (exportsPerLinkMax)`;
      throw new CudaIpcError("LIMIT_EXCEEDED", `Cannot ${attempt}: ${found}`);
    }
    this.#opening += 1;
    try {
      using observer = await this.#hub.observeChannel(name, { wait: false });
      const { committed } = observer.statistics();
      const reader = await this.#hub.openChannel(name, { wait: false, spinMs: 0 });
      try {
        // After the open, because a later channel may have taken the name before it.
        const now = (await this.#hub.inspect(name)).object.object;
        if (now !== object || record.object !== object) {
          const found = `object ${object} has been replaced by ${now}`;
          throw new CudaIpcError("STALE_HANDLE", `Cannot ${attempt}: ${found}`);
        }
        if (!this.#open) throw new CudaIpcError("CLOSED", `Cannot ${attempt}: the link has ended`);
      } catch (error) {
        reader.close();
        throw error;
      }
      this.#lastId += 1;
      this.#joined.set(this.#lastId, { reader, turn: Promise.resolve() });
      // What came during the open counts as missed.
      return { channel: this.#lastId, sequence: committed };
    } finally {
      this.#opening -= 1;
    }
  }

  next({ channel, tag }: CallOf<"next">): Promise<Answer> {
    const joined = this.#find(channel);
    const untilMs = performance.now() + ANSWER_MS;
    const answer = joined.turn.then(() => this.#take(joined.reader, tag, untilMs));
    joined.turn = answer.catch(() => {});
    return answer;
  }

  leave({ channel }: CallOf<"leave">): CallResult<"leave"> {
    const { reader } = this.#find(channel);
    this.#joined.delete(channel);
    reader.close();
    return {};
  }

  /** Leaves all channels. */
  close(): void {
    this.#open = false;
    const open = [...this.#joined.values()];
    this.#joined.clear();
    releaseAll(
      open.map(
        ({ reader }) =>
          () =>
            reader.close(),
      ),
    );
  }

  #find(channel: number): Joined {
    const found = this.#joined.get(channel);
    if (found !== undefined) return found;
    throw new CudaIpcError("NOT_FOUND", `Cannot read channel ${channel}: it is not joined`);
  }

  async #take(reader: ChannelReader, tag: string, untilMs: number): Promise<Answer> {
    try {
      const timeoutMs = Math.max(1, untilMs - performance.now());
      const slot = await reader.next({ timeoutMs });
      return slot === undefined ? { state: "ended", gone: false } : this.#give(reader, slot, tag);
    } catch (error) {
      if (hasCode(error, "TIMEOUT")) return { state: "idle" };
      if (hasCode(error, "PEER_GONE")) return { state: "ended", gone: true };
      throw error;
    }
  }

  async #give(reader: ChannelReader, slot: ReceivedSlot, tag: string): Promise<Answer> {
    let isExported = false;
    try {
      const { sequence, byteLength, array } = slot;
      const { byteOffset } = array.layout;
      const message = {
        state: "message",
        sequence,
        byteLength,
        shape: isSame(array.shape, reader.shape) ? null : [...array.shape],
        meta: Buffer.from(slot.meta).toString("base64"),
        metaIsJson: slot.json !== undefined,
        export: null,
        crc: 0,
      } as const;
      if (byteLength > limits.carriedInlineBytes) {
        isExported = true;
        const bytes = { buffer: array.buffer, byteOffset, byteLength, index: NO_INDEX };
        return { ...message, export: this.#parts.add({ ...bytes, close: () => slot.release() }) };
      }
      let crc = 0;
      if (byteLength > 0)
        await takePiece(array.buffer, byteOffset, byteLength, async (address) => {
          crc = await crc32At(address, byteLength);
          await this.#parts.sendBytes({ address, byteLength }, tag);
        });
      return { ...message, crc };
    } finally {
      if (!isExported) slot.release();
    }
  }
}

function isSame(one: readonly number[], other: readonly number[]): boolean {
  return one.length === other.length && one.every((length, axis) => length === other[axis]);
}
