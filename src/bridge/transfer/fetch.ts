/**
 * One copy of another machine's object to this one. Everybody here who wants the object waits for
 * the same fetch. The copy is published when the last byte has been checked, or not at all.
 */
import { parseDType } from "../../array/dtype.js";
import { checkLayout } from "../../array/layout.js";
import { Deadline } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import type { Hub } from "../../client/hub.js";
import { decodeBundleIndex } from "../../client/objects/bundle-index.js";
import type { ReplicaContent } from "../../client/objects/put-replica.js";
import type { DeviceBuffer } from "../../gpu/memory/device-buffer.js";
import { fillNewPiece } from "../../gpu/transfer/piece-transfer.js";
import { addressOf } from "../../os/host-memory.js";
import { type Descriptor, descriptorContradiction } from "../../wire/descriptor.js";
import type { CallResult, Part } from "../../wire/link-messages.js";
import type { NameRecord } from "../../wire/machine-records.js";
import type { LinkTable } from "../link/link-table.js";
import type { Directory } from "../names/directory.js";
import { ByteRanges } from "./byte-ranges.js";
import { copyParts, type FillRange } from "./copy-parts.js";
import {
  type IndexAccount,
  type IndexCharge,
  indexMemory,
  metadataMemory,
} from "./index-account.js";
import { RateMeter } from "./rate-meter.js";
import { type OpenedOver, RemoteObject } from "./remote-object.js";

export interface FetchParts {
  readonly hub: Hub;
  /** The bridge's own user, as the hub numbers it. Copies are this user's. */
  readonly uid: number;
  readonly links: LinkTable;
  readonly directory: Directory;
  /** Where copies are made. */
  readonly device: string;
  /** For the indexes of bundles. */
  readonly indexes: IndexAccount;
}

type OpenedExport = OpenedOver<CallResult<"export">>;

export class Fetch {
  readonly record: NameRecord;
  /** Settles when the copy is published, or cannot be. */
  readonly done: Promise<void>;
  readonly #parts: FetchParts;
  readonly #remote: RemoteObject<CallResult<"export">>;
  readonly #stop = new AbortController();
  readonly #onProgress = new Set<() => void>();
  readonly #rate = new RateMeter(performance.now());
  #charge: IndexCharge | undefined;
  #doneBytes = 0;
  #isFilled = false;

  /** @param replacedObject the copy of an earlier object that is to be replaced */
  constructor(parts: FetchParts, record: NameRecord, replacedObject: number | undefined) {
    this.record = record;
    this.#parts = parts;
    const { name, object } = record;
    this.#remote = new RemoteObject(record, parts, this.#stop.signal, {
      verb: "copy",
      open: (link, deadline) => link.call({ op: "export", name, object }, deadline),
      end: (link, opened, deadline) => link.call({ op: "end", export: opened.export }, deadline),
    });
    this.done = this.#run(replacedObject);
    // Each waiter handles the failure itself, and there may be none.
    this.done.catch(() => {});
  }

  get doneBytes(): number {
    return this.#doneBytes;
  }

  get totalBytes(): number {
    return this.record.descriptor.byteLength;
  }

  /** Over the last seconds. */
  get bytesPerSecond(): number {
    return this.#rate.perSecond(performance.now());
  }

  /** Calls the listener after each piece. Returns a function that ends the calls. */
  onProgress(listener: () => void): () => void {
    this.#onProgress.add(listener);
    return () => this.#onProgress.delete(listener);
  }

  /**
   * Gives the copy up, unless all its bytes are here. WHY not then: the hub may have published it
   * already, and who waited for it has opened it, and so waits no longer.
   */
  abort(reason: CudaIpcError): void {
    if (!this.#isFilled) this.#stop.abort(reason);
  }

  async #run(replacedObject: number | undefined): Promise<void> {
    const { name, machine, object, sharedWith } = this.record;
    const { signal } = this.#stop;
    try {
      await this.#chargeIndex();
      const { content, byteLength } = await this.#describe();
      using _copy = await this.#parts.hub.putReplica({
        name,
        content,
        byteLength,
        replicaOf: { machine, object },
        sharedWith,
        device: this.#parts.device,
        replacedObject,
        signal,
        fill: (buffer) => this.#fill(buffer, byteLength),
      });
    } finally {
      this.#remote.end();
      this.#charge?.[Symbol.dispose]();
    }
  }

  /** WHY before the object is opened: while a copy waits for room, its link may fall silent. */
  async #chargeIndex(): Promise<void> {
    const { name, descriptor } = this.record;
    if (descriptor.content.kind !== "bundle") return;
    const { signal } = this.#stop;
    const attempt = `copy "${name}"`;
    const deadline = new Deadline(attempt, { signal }, Number.POSITIVE_INFINITY);
    const bytes = indexMemory(descriptor.content);
    this.#charge = await this.#parts.indexes.take(attempt, bytes, deadline);
  }

  /** What the object holds, checked. */
  async #describe(): Promise<{
    readonly content: ReplicaContent;
    readonly byteLength: number;
  }> {
    for (;;) {
      try {
        const opened = await this.#remote.open();
        const { descriptor } = opened;
        this.#check(descriptor);
        const { content, byteLength } = descriptor;
        if (content.kind === "array") {
          const layout = { ...content.array, dtype: parseDType(content.array.dtype) };
          checkLayout(layout, byteLength);
          return { content: { kind: "array", layout }, byteLength };
        }
        if (content.kind !== "bundle") throw this.#wrongKind(content.kind);
        const { arrayCount } = content;
        // It may claim more than was announced.
        const memory = indexMemory({ arrayCount, indexByteLength: opened.indexByteLength });
        this.#charge?.growTo(memory);
        const index = await this.#index(opened);
        this.#charge?.growTo(memory + metadataMemory(index, arrayCount));
        const { name } = this.record;
        const bundle = await decodeBundleIndex(name, index, arrayCount, byteLength);
        return { content: { kind: "bundle", ...bundle }, byteLength };
      } catch (error) {
        await this.#remote.recover(error);
      }
    }
  }

  async #fill(buffer: DeviceBuffer, byteLength: number): Promise<void> {
    const ranges = new ByteRanges(byteLength);
    const fill: FillRange = (range, write) =>
      fillNewPiece(buffer, range.byteOffset, range.byteLength, write);
    const onProgress = () => {
      this.#doneBytes = ranges.doneBytes;
      this.#rate.add(performance.now(), ranges.doneBytes);
      this.#remote.progressed();
      for (const listener of [...this.#onProgress]) listener();
    };
    for (;;) {
      try {
        await this.#copy(await this.#remote.open(), "data", ranges, fill, onProgress);
        this.#isFilled = true;
        return;
      } catch (error) {
        await this.#remote.recover(error);
      }
    }
  }

  async #index(opened: OpenedExport): Promise<Uint8Array> {
    const index = new Uint8Array(new ArrayBuffer(opened.indexByteLength));
    const start = addressOf(index);
    const fill: FillRange = ({ byteOffset }, write) => write(start + BigInt(byteOffset));
    const ranges = new ByteRanges(index.byteLength);
    await this.#copy(opened, "index", ranges, fill, () => this.#remote.progressed());
    // Used here, so it was not collected while UCX wrote to it.
    return index;
  }

  async #copy(
    { link, export: from }: OpenedExport,
    part: Part,
    ranges: ByteRanges,
    fill: FillRange,
    onProgress: () => void,
  ): Promise<void> {
    const { name } = this.record;
    const { signal } = this.#stop;
    const deadline = new Deadline(`copy "${name}"`, { signal }, Number.POSITIVE_INFINITY);
    await copyParts({ name, link, export: from, part }, ranges, fill, deadline, onProgress);
  }

  /** The other bridge may have answered with another descriptor than it had announced. */
  #check(descriptor: Descriptor): void {
    const { name, machine, descriptor: announced } = this.record;
    const isOtherSize = descriptor.byteLength !== announced.byteLength;
    const [kind, announcedKind] = [descriptor.content.kind, announced.content.kind];
    const why =
      descriptorContradiction(descriptor) ??
      (isOtherSize
        ? `${descriptor.byteLength} bytes, ${announced.byteLength} were announced`
        : kind !== announcedKind
          ? `a ${kind}, a ${announcedKind} was announced`
          : undefined);
    if (why === undefined) return;
    throw new CudaIpcError(
      "INVALID_DESCRIPTOR",
      `Cannot copy "${name}" from machine "${machine}": it claims ${why}`,
    );
  }

  #wrongKind(kind: string): CudaIpcError {
    const { name, machine } = this.record;
    const message = `Cannot copy "${name}" from machine "${machine}": it is a ${kind}`;
    return new CudaIpcError("WRONG_KIND", message);
  }
}
