/**
 * Channels that have a name on the hub. The hub assigns seats to readers, and ends the part of a
 * process that dies.
 */
import { type DType, dtypeFacts, parseDType } from "../../array/dtype.js";
import { Deadline, type WaitOptions } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { defaults } from "../../base/limits.js";
import { acquireIn, acquireInAsync } from "../../base/scope.js";
import { lineAt, stateOf, storeValue } from "../../base/timeline-line.js";
import { ChannelObserver } from "../../channel/channel-observer.js";
import type { ReaderOptions } from "../../channel/channel-options.js";
import { type ChannelOptions, channelShape } from "../../channel/channel-options.js";
import {
  type ChannelShape,
  createParts,
  exportParts,
  openReaderParts,
  openWriterParts,
  preallocateWords,
  type WriterParts,
} from "../../channel/channel-parts.js";
import { ChannelReader } from "../../channel/channel-reader.js";
import { ChannelWriter } from "../../channel/channel-writer.js";
import type { Device } from "../../gpu/device.js";
import { DeviceBuffer } from "../../gpu/memory/device-buffer.js";
import { describeBuffer } from "../../gpu/memory/sharing.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { memorySlots } from "../../ring/channel-layout.js";
import { succeed } from "../../ring/ring-succession.js";
import { RingWriter } from "../../ring/ring-writer.js";
import type { ChannelContent } from "../../wire/channel-content.js";
import type { ReplicaOf } from "../../wire/descriptor.js";
import { checkName } from "../../wire/names.js";
import { operations } from "../client-diagnostics.js";
import type { CreateOptions } from "../hub-options.js";
import type { HubObjects } from "./hub-objects.js";
import { lastingReader, lastingWriter } from "./lasting-channel.js";
import type { FindOptions } from "./open-anywhere.js";
import { wrongDType } from "./open-arrays.js";
import type { OpenedChannel } from "./opened-channel.js";
import type { SharedHandle } from "./shared-object.js";
import { readerNames } from "./who-reads.js";

export interface CreateChannelOptions<D extends DType = DType>
  extends ChannelOptions<D>,
    Omit<CreateOptions, "pool"> {}

export interface OpenChannelOptions<D extends DType = DType> extends ReaderOptions, WaitOptions {
  /** The element type that the channel's arrays must have. It gives the type of the reader. */
  readonly dtype?: D | undefined;
  /** Use the memory on this device instead of its own: `cuda:N`, which must reach it. */
  readonly device?: string | undefined;
  /** Wait until there is a channel of this name (default). With false: NOT_FOUND at once. */
  readonly wait?: boolean | undefined;
  /**
   * Where to look for the name: on this machine (`here`, the default), or on all (`any`). Then the
   * bridge carries the messages of a channel of another machine to this one, for all readers here.
   */
  readonly machine?: "here" | "any" | undefined;
}

/** A channel to which a bridge writes what it reads on another machine. */
export interface CarriedChannelPlan extends CreateChannelOptions {
  readonly replicaOf: ReplicaOf;
  /** The number of its first message. */
  readonly firstSequence: number;
}

/** A worker's channel for replies. */
export interface OfferPlan<D extends DType = DType> extends CreateChannelOptions<D> {
  /** Users who may be workers of its service, if it is the first offer. */
  readonly workers: readonly number[];
}

export type ResumeChannelOptions = Pick<
  OpenChannelOptions,
  "device" | "wait" | "timeoutMs" | "signal"
>;

type Carried = Partial<
  Pick<CarriedChannelPlan, "replicaOf" | "firstSequence"> & Pick<OfferPlan, "workers">
>;

export async function createChannel<D extends DType>(
  objects: HubObjects,
  name: string,
  device: Device,
  options: CreateChannelOptions<D> & Carried,
): Promise<ChannelWriter<D>> {
  checkName(name);
  const shape = channelShape(options, device.facts.alignmentBytes);
  const byteLength = memorySlots(shape) * shape.slotStride;
  const deadline = new Deadline(`create "${name}"`, options, defaults.requestTimeoutMs);
  const create = () => createOnce(objects, name, device, shape, options, deadline);
  return operations.create.run({ name, kind: "channel", byteLength }, async () => {
    for (;;) {
      const writer = await create().catch((error) => Promise.reject(deadline.named(error)));
      if (writer !== undefined) return writer;
    }
  });
}

/** Undefined if the attempt must be repeated. */
async function createOnce<D extends DType>(
  objects: HubObjects,
  name: string,
  device: Device,
  shape: ChannelShape<D>,
  options: CreateChannelOptions<D> & Carried,
  deadline: Deadline,
): Promise<ChannelWriter<D> | undefined> {
  return acquireInAsync(async (scope) => {
    const byteLength = memorySlots(shape) * shape.slotStride;
    const buffer = scope.own(DeviceBuffer.allocate(device, byteLength, { label: name }), (buffer) =>
      buffer.close(),
    );
    const parts = scope.own(createParts(name, buffer, shape), (parts) => parts.close());
    if (options.preallocate) {
      await objects.preallocate(buffer, deadline);
      await preallocateWords(parts, deadline);
    }
    // It has no readers yet.
    if (options.firstSequence !== undefined)
      new RingWriter(parts.words, [], () => {}).beginAt(options.firstSequence);
    let handle: SharedHandle | undefined;
    const readers = readerNames(objects.link, name, () => handle?.object);
    const writer = new ChannelWriter(parts, () => handle?.close(), readers);
    // The writer closes its parts itself, once they are not in use any more.
    scope.handOver();
    // A pinned channel that replaces another one keeps the name, so it may wait for a next writer.
    const close = () => (options.replace ? writer.close() : writer.end());
    scope.defer(() => objects.handles.giveUp(handle?.object, close));
    const descriptor = describeBuffer(buffer, contentOf(shape), options.replicaOf);
    const memory = { bring: () => bringAll(buffer, parts), close: () => {} };
    const facts = await objects.register(name, descriptor, memory, {
      ...options,
      timeoutMs: deadline.remainingMs,
    });
    handle = objects.handles.track(facts, lastingWriter(writer, parts));
    await handle.publish({ signal: deadline.signal, timeoutMs: deadline.remainingMs });
    if (!writer.open)
      throw new CudaIpcError("CLOSED", `Cannot create "${name}": the hub was closed`);
    if (parts.words.state === "open") return writer;
    // Repeat: the answer to the first request was lost, and the hub has ended the result of it.
    writer.end();
    return undefined;
  });
}

/** Opens a reader of the channel. */
export async function openChannel<D extends DType>(
  objects: HubObjects,
  name: string,
  options: OpenChannelOptions<D>,
): Promise<ChannelReader<D>> {
  const { dtype, machine } = options;
  if (dtype !== undefined) dtypeFacts(dtype);
  if (machine !== "any") return openHere(objects, name, options);
  // WHY here: whoever uses one machine loads none of it.
  const { openAnywhere } = await import("./open-anywhere.js");
  const open = (chosen: FindOptions) => openHere(objects, name, { ...options, ...chosen });
  return openAnywhere(objects.link.socketPath, name, options, open);
}

async function openHere<D extends DType>(
  objects: HubObjects,
  name: string,
  options: OpenChannelOptions<D>,
): Promise<ChannelReader<D>> {
  const { dtype } = options;
  return objects.openChannel(name, "reader", options, async (opened) => {
    const { seat, lease, content, fds } = opened;
    if (dtype !== undefined && content.dtype !== dtype) {
      throw wrongDType(name, dtype, `a channel of ${content.dtype}`);
    }
    const buffer = await objects.placeMemory(opened, "read", options);
    return acquireInAsync(async (scope) => {
      scope.own(buffer, (buffer) => buffer.close());
      const parts = openReaderParts(name, buffer, shapeOf(content) as ChannelShape<D>, {
        fds,
        seat: seat ?? 0,
        lease,
      });
      scope.own(parts, (parts) => parts.close());
      let handle: SharedHandle | undefined;
      const reader = new ChannelReader(parts, options, () => handle?.close());
      handle = objects.handles.track(opened, lastingReader(reader, parts));
      return reader;
    });
  });
}

/** Opens the next writer of a channel whose writer is gone. */
export function resumeChannel(
  objects: HubObjects,
  name: string,
  options: ResumeChannelOptions,
): Promise<ChannelWriter> {
  return objects.openChannel(name, "writer", options, async (opened) => {
    const buffer = await objects.placeMemory(opened, "read-write", options);
    return acquireInAsync(async (scope) => {
      scope.own(buffer, (buffer) => buffer.close());
      const parts = openWriterParts(name, buffer, shapeOf(opened.content), opened.fds);
      scope.own(parts, (parts) => parts.close());
      follow(parts);
      let handle: SharedHandle | undefined;
      const readers = readerNames(objects.link, name, () => opened.object);
      const writer = new ChannelWriter(parts, () => handle?.close(), readers);
      handle = objects.handles.track(opened, lastingWriter(writer, parts));
      parts.words.setState("open");
      return writer;
    });
  });
}

/** Observes the channel. */
export function observeChannel(
  objects: HubObjects,
  name: string,
  options: Pick<OpenChannelOptions, "wait" | "timeoutMs" | "signal">,
): Promise<ChannelObserver> {
  return objects.openChannel(name, "observer", options, (opened: OpenedChannel) => {
    let handle: SharedHandle | undefined;
    const observer = new ChannelObserver(name, shapeOf(opened.content), opened.fds, () =>
      handle?.close(),
    );
    handle = objects.handles.track(opened, () => observer.close());
    return observer;
  });
}

/** An observer that holds no lease. */
export interface WatchedChannel {
  readonly object: number;
  readonly observer: ChannelObserver;
  close(): void;
}

/**
 * As `observeChannel`, but gives the lease back at once. The words stay mapped until `close`, also
 * after the channel has ended. The memory of its slots is not kept.
 */
export function watchChannel(
  objects: HubObjects,
  name: string,
  options: Pick<OpenChannelOptions, "wait" | "timeoutMs" | "signal">,
): Promise<WatchedChannel> {
  return objects.openChannel(name, "observer", options, (opened: OpenedChannel) => {
    const { object, content, fds } = opened;
    const observer = new ChannelObserver(name, shapeOf(content), fds, () => {});
    objects.handles.track(opened, () => {}).close();
    return { object, observer, close: () => observer.close() };
  });
}

/**
 * Takes over the words: unfinished messages of the last writer are lost, and a new timeline begins.
 */
function follow({ label, words, control }: WriterParts): void {
  const earlier = stateOf(lineAt(control.cpu, words.readyOffset(words.epoch)));
  succeed(label, words, { reached: Number(earlier.value) });
  storeValue(lineAt(control.cpu, words.readyOffset(words.epoch)), BigInt(words.published));
}

function bringAll(buffer: DeviceBuffer, parts: WriterParts): OwnedFd[] {
  return acquireIn((scope) => {
    const data = scope.own(buffer.exportFd(), (fd) => fd.close());
    return [data, ...exportParts(parts)];
  });
}

function contentOf({ dtype, ...shape }: ChannelShape): ChannelContent {
  return { kind: "channel", dtype, ...shape, shape: [...shape.shape] };
}

function shapeOf({ kind, dtype, ...content }: ChannelContent): ChannelShape {
  return { ...content, dtype: parseDType(dtype) };
}
