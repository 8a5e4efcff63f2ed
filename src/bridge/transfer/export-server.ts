/**
 * Serves the objects of this machine to the bridge of another one, over one link. An object stays
 * open while it is copied, so it does not end meanwhile. Channels and services have servers of
 * their own, which end with this one.
 */
import { checkRange } from "../../base/bytes.js";
import { Deadline } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { defaults, limits } from "../../base/limits.js";
import { releaseAll } from "../../base/scope.js";
import type { Hub } from "../../client/hub.js";
import { encodeBundleIndex } from "../../client/objects/bundle-index.js";
import type { SharedArray } from "../../client/objects/shared-array.js";
import { SharedBundle } from "../../client/objects/shared-bundle.js";
import type { DeviceBuffer } from "../../gpu/memory/device-buffer.js";
import { takePiece } from "../../gpu/transfer/piece-transfer.js";
import { addressOf } from "../../os/host-memory.js";
import type { CarriedChannelStatus } from "../../wire/bridge-messages.js";
import type { MoreMessages } from "../../wire/carried-frames.js";
import type { CallResult, LinkCall } from "../../wire/link-messages.js";
import type { NameRecord } from "../../wire/machine-records.js";
import { ChannelServer } from "../channels/channel-server.js";
import type { LentReader, LinkServer } from "../link/link-server.js";
import type { MachineLink } from "../link/machine-link.js";
import type { AnnounceRule } from "../local-names.js";
import { ClaimServer } from "../services/claim-server.js";
import { IndexAccount, type IndexCharge, indexMemory } from "./index-account.js";
import { PieceTurns } from "./piece-turns.js";
import { openAnnounced } from "./stale-object.js";

/** Bytes that the other machine may copy, until it ends the export. */
export interface Export {
  readonly buffer: DeviceBuffer;
  /** Where the bytes begin in the buffer. */
  readonly byteOffset: number;
  readonly byteLength: number;
  /** The index of a bundle; otherwise empty. */
  readonly index: Uint8Array;
  close(): void;
}

export type CallOf<Op extends LinkCall["op"]> = Extract<LinkCall, { readonly op: Op }>;

export interface ExportParts {
  readonly hub: Hub;
  /** Which workers of services may be claimed. */
  readonly rule: AnnounceRule;
  /** What this machine has announced under a name; nothing else is served. */
  announced(name: string): NameRecord | undefined;
  /** For the indexes of bundles that all machines copy. */
  readonly indexes: IndexAccount;
  /** Has this server while something is open over its link. */
  readonly serving: Set<ExportServer>;
}

export class ExportServer implements LinkServer {
  readonly #hub: Hub;
  readonly #link: () => MachineLink;
  readonly #announced: (name: string) => NameRecord | undefined;
  readonly #serving: Set<ExportServer>;
  readonly #indexes: IndexAccount;
  /** Of this machine alone. WHY: it may not take the room of all others. */
  readonly #ownIndexes = new IndexAccount("bridgeIndexBytesMax", limits.bridgeIndexBytesMax);
  readonly #exports = new Map<number, Export>();
  readonly #channels: ChannelServer;
  readonly #claims: ClaimServer;
  readonly #turns = new PieceTurns();
  /** Objects that are being opened or copied. Messages of channels have a limit of their own. */
  #objects = 0;
  #lastId = 0;
  #isTied = false;

  constructor(parts: ExportParts, link: () => MachineLink) {
    const { hub, rule, announced, serving, indexes } = parts;
    this.#hub = hub;
    this.#link = link;
    this.#announced = announced;
    this.#serving = serving;
    this.#indexes = indexes;
    this.#channels = new ChannelServer(hub, {
      announced,
      add: (message) => this.#add(message),
      end: (message) => this.#endExport(message),
      link,
    });
    this.#claims = new ClaimServer({ hub, rule, channels: this.#channels, link });
  }

  /** The channels that the other machine reads. */
  get carried(): readonly CarriedChannelStatus[] {
    const { machine } = this.#link();
    return this.#channels.carried.map((it) => ({ ...it, direction: "out", machine }));
  }

  /** The service of each worker that the other machine uses. */
  get claimed(): readonly string[] {
    return this.#claims.services;
  }

  async answer(call: LinkCall): Promise<unknown> {
    switch (call.op) {
      case "hello":
        return {} satisfies CallResult<"hello">;
      case "export":
        return this.#open(call);
      case "send":
        return this.#turns.run(() => this.#send(call));
      case "end":
        return this.#end(call);
      case "join":
        this.#tie(call.name);
        return this.#channels.join(call);
      case "read":
        return this.#channels.read(call);
      case "leave":
        return this.#channels.leave(call);
      case "claim":
        this.#tie(call.service);
        return this.#claims.claim(call);
      case "attach":
        return this.#claims.attach(call);
    }
  }

  more(asked: MoreMessages): void {
    this.#channels.more(asked);
  }

  lend(lent: LentReader): number {
    try {
      this.#tie(lent.reader.label);
    } catch (error) {
      lent.close();
      throw error;
    }
    return this.#channels.lend(lent);
  }

  takeBack(channel: number): void {
    this.#channels.takeBack(channel);
  }

  async #open({ name, object }: CallOf<"export">): Promise<CallResult<"export">> {
    const attempt = `copy "${name}" to another machine`;
    const record = this.#announced(name);
    if (record === undefined)
      throw new CudaIpcError("NOT_FOUND", `Cannot ${attempt}: it is not announced`);
    if (this.#objects >= limits.exportsPerLinkMax) {
      const found = `${limits.exportsPerLinkMax} are copied already (exportsPerLinkMax)`;
      throw new CudaIpcError("LIMIT_EXCEEDED", `Cannot ${attempt}: ${found}`);
    }
    this.#objects += 1;
    const charges: IndexCharge[] = [];
    const giveBack = () => {
      this.#objects -= 1;
      for (const charge of charges) charge[Symbol.dispose]();
    };
    try {
      await this.#chargeIndex(attempt, record, charges);
      const shared = await openAnnounced(attempt, () => this.#hub.openAny(name, { wait: false }));
      return this.#export(attempt, record, object, shared, giveBack);
    } catch (error) {
      giveBack();
      throw error;
    }
  }

  /** Waits for room for the index of a bundle. */
  async #chargeIndex(
    attempt: string,
    { descriptor: { content } }: NameRecord,
    charges: IndexCharge[],
  ): Promise<void> {
    if (content.kind !== "bundle") return;
    const bytes = indexMemory(content);
    const why = () => "indexes of other bundles take all memory for them (bridgeIndexBytesMax)";
    const deadline = new Deadline(attempt, {}, defaults.linkTimeoutMs, why);
    for (const account of [this.#ownIndexes, this.#indexes])
      charges.push(await account.take(attempt, bytes, deadline));
  }

  #export(
    attempt: string,
    record: NameRecord,
    object: number,
    shared: SharedArray | SharedBundle,
    giveBack: () => void,
  ): CallResult<"export"> {
    try {
      if (shared.object !== object || record.object !== object) {
        const found = `object ${object} has been replaced by ${shared.object}`;
        throw new CudaIpcError("STALE_HANDLE", `Cannot ${attempt}: ${found}`);
      }
      this.#tie(record.name);
      const { descriptor } = record;
      const { buffer } = shared;
      const index = indexOf(shared);
      const bytes = { buffer, byteOffset: 0, byteLength: buffer.byteLength, index };
      const id = this.#add({
        ...bytes,
        close: () => {
          giveBack();
          shared.close();
        },
      });
      return { export: id, descriptor, indexByteLength: index.byteLength };
    } catch (error) {
      shared.close();
      throw error;
    }
  }

  #add(exported: Export): number {
    this.#lastId += 1;
    this.#exports.set(this.#lastId, exported);
    return this.#lastId;
  }

  async #send(call: CallOf<"send">): Promise<CallResult<"send">> {
    const { part, byteOffset, byteLength, tag } = call;
    const { buffer, index, ...exported } = this.#exported(call.export);
    let seal: CallResult<"send"> | undefined;
    const send = async (address: bigint) => {
      const link = this.#link();
      seal = await link.bytesSeal.seal(address, byteLength);
      await link.sendBytes({ address, byteLength, owner: index }, tag);
    };
    if (part === "data") {
      checkRange("A piece", byteOffset, byteLength, exported.byteLength);
      await takePiece(buffer, exported.byteOffset + byteOffset, byteLength, send);
    } else if (byteOffset + byteLength <= index.byteLength)
      await send(addressOf(index) + BigInt(byteOffset));
    else throw new RangeError(`byte ${byteOffset + byteLength} is beyond the index`);
    return seal as unknown as CallResult<"send">;
  }

  #end(call: CallOf<"end">): CallResult<"end"> {
    this.#exported(call.export);
    this.#endExport(call.export);
    return {};
  }

  #endExport(id: number): void {
    const exported = this.#exports.get(id);
    this.#exports.delete(id);
    exported?.close();
  }

  #exported(id: number): Export {
    const found = this.#exports.get(id);
    if (found !== undefined) return found;
    throw new CudaIpcError("NOT_FOUND", `Cannot use export ${id}: it has ended`);
  }

  /** Closes everything with the link. @throws CLOSED if the link has ended */
  #tie(name: string): void {
    const link = this.#link();
    if (!link.open) throw new CudaIpcError("CLOSED", `Cannot send "${name}": the link has ended`);
    if (this.#isTied) return;
    this.#isTied = true;
    this.#serving.add(this);
    link.onEnd(() => {
      this.#serving.delete(this);
      const open = [...this.#exports.values()];
      this.#exports.clear();
      releaseAll([() => this.#channels.close(), ...open.map((it) => () => it.close())]);
    });
  }
}

/** Outside of V8's heap, as UCX needs it. Empty for an array. */
function indexOf(shared: SharedArray | SharedBundle): Uint8Array {
  if (!(shared instanceof SharedBundle)) return new Uint8Array(new ArrayBuffer(0));
  const layouts = new Map([...shared].map(([name, { layout }]) => [name, layout]));
  const json = encodeBundleIndex({ layouts, metadata: shared.metadata });
  const bytes = new Uint8Array(new ArrayBuffer(json.byteLength));
  bytes.set(json);
  return bytes;
}
