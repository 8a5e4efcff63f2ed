/**
 * Shares memory of this process without a hub. The document describes the memory and travels in
 * messages and files. A process that has the document fetches the file descriptors with it.
 */
import { oneOf, optionsOf } from "../base/option-checks.js";
import { acquireIn } from "../base/scope.js";
import { shownValue } from "../base/shown-value.js";
import { DeviceArray } from "../gpu/arrays/device-array.js";
import { DeviceBuffer } from "../gpu/memory/device-buffer.js";
import { GrowingBuffer } from "../gpu/memory/growing-buffer.js";
import { describeBuffer } from "../gpu/memory/sharing.js";
import { Event } from "../gpu/order/event.js";
import { Timeline } from "../gpu/order/timeline.js";
import type { Access } from "../os/mapping.js";
import { ownIdentity } from "../os/process-identity.js";
import type { Descriptor } from "../wire/descriptor.js";
import {
  SHARED_DOCUMENT_VERSION,
  type SharedDocument,
  type SharedDocumentOf,
  type SharedMemoryDocument,
} from "../wire/shared-document.js";
import { type FdRegistration, registerFds, registerGrowing } from "./fd-server.js";

export interface ShareOptions {
  /**
   * The most access that other processes get. The default is `read-write`. The kernel enforces
   * `read` on the host device. On a GPU only this package enforces it.
   */
  readonly access?: Access | undefined;
}

const checkShare = optionsOf<ShareOptions>("share()", {
  access: oneOf("read", "read-write"),
});

export class Shared<Document extends SharedDocument = SharedDocument> {
  /** Plain JSON, for `process.send`, `postMessage` and files. */
  readonly document: Document;
  readonly #registration: FdRegistration | undefined;

  /** Created by `share`. Has no registration if the document alone is enough. */
  constructor(document: Document, registration?: FdRegistration) {
    this.document = document;
    this.#registration = registration;
  }

  /** Returns the document for `JSON.stringify` and for messages of `child_process`. */
  toJSON(): Document {
    return this.document;
  }

  /**
   * Stops sharing: no process can open the object any more. Processes that opened it keep it. An
   * event can still be opened, because its document is the handle itself.
   */
  close(): void {
    this.#registration?.withdraw();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** The objects that a process can share without a hub. */
export type Shareable = DeviceArray | DeviceBuffer | GrowingBuffer | Event | Timeline;

/**
 * Shares an object of this process. Memory stays shared until you close the result, even if you
 * close the array first. Exceptions are memory of a pool and growing memory: keep them open while
 * you share them. The result does not keep the process alive, and sharing ends with the process.
 *
 * For legacy memory, use `IpcArrayHandle.of(array)` instead. `openShared` opens that handle too.
 * @throws UNSUPPORTED if this process did not create the object but opened it
 * @throws TypeError if the memory is of a pool and not `ready`
 * @throws UNSAFE_RUNTIME_DIR
 * @example
 * using shared = share(array);
 * child.send(shared.document);
 */
export function share(
  source: DeviceArray | DeviceBuffer,
  options?: ShareOptions,
): Shared<SharedMemoryDocument>;
export function share(source: GrowingBuffer): Shared<SharedDocumentOf<"growing">>;
export function share(source: Event): Shared<SharedDocumentOf<"event">>;
export function share(source: Timeline): Shared<SharedDocumentOf<"timeline">>;
export function share(source: Shareable, options: ShareOptions = {}): Shared {
  checkShare(options);
  const { access = "read-write" } = options;
  if (source instanceof Event) return new Shared(source.export());
  if (source instanceof Timeline) return shareTimeline(source);
  if (source instanceof GrowingBuffer) return shareGrowing(source);
  return shareMemory(source, access);
}

function head(): Pick<SharedMemoryDocument, "format" | "exporter"> & {
  readonly version: typeof SHARED_DOCUMENT_VERSION;
} {
  return { format: "cuda-ipc", version: SHARED_DOCUMENT_VERSION, exporter: ownIdentity() };
}

function shareMemory(
  source: DeviceArray | DeviceBuffer,
  access: Access,
): Shared<SharedMemoryDocument> {
  const { kind, descriptor } = describe(source);
  return acquireIn((scope) => {
    const fd = scope.own(bufferOf(source).exportFd(access), (fd) => fd.close());
    const registration = registerFds([fd]);
    return new Shared({ ...head(), kind, access, descriptor, fds: registration.fds }, registration);
  });
}

/**
 * Registers a writable descriptor. If this process dies, a process that opened the timeline must
 * write its end, because no hub does.
 */
function shareTimeline(timeline: Timeline): Shared<SharedDocumentOf<"timeline">> {
  return acquireIn((scope) => {
    const registration = registerFds([scope.own(timeline.exportWritableFd(), (fd) => fd.close())]);
    return new Shared(
      { ...head(), kind: "timeline", ...timeline.place, fds: registration.fds },
      registration,
    );
  });
}

function shareGrowing(memory: GrowingBuffer): Shared<SharedDocumentOf<"growing">> {
  const { fds, descriptor } = memory.export();
  for (const fd of fds) fd.close();
  const registration = registerGrowing(memory);
  return new Shared(
    { ...head(), kind: "growing", descriptor, fds: registration.fds },
    registration,
  );
}

/** Describes memory for a document or an offer. @throws TypeError for any other object */
export function describe(source: DeviceArray | DeviceBuffer): {
  kind: "array" | "buffer";
  descriptor: Descriptor;
} {
  if (source instanceof DeviceArray) {
    const { dtype, shape, strides, byteOffset } = source.layout;
    const array = { dtype, shape: [...shape], strides: [...strides], byteOffset };
    return { kind: "array", descriptor: describeBuffer(source.buffer, { kind: "array", array }) };
  }
  if (!(source instanceof DeviceBuffer)) {
    throw new TypeError(`Cannot share ${shownValue(source)}: it is no array and no buffer`);
  }
  const array = { dtype: "uint8", shape: [source.byteLength], strides: [1], byteOffset: 0 };
  return { kind: "buffer", descriptor: describeBuffer(source, { kind: "array", array }) };
}

export function bufferOf(source: DeviceArray | DeviceBuffer): DeviceBuffer {
  return source instanceof DeviceBuffer ? source : source.buffer;
}
