/**
 * Shares memory of this process without a hub: a document that says what it is, for messages and files, and the descriptors for
 * those who come with it.
 */
import { checkOneOf } from "../base/one-of.js";
import { acquireIn } from "../base/scope.js";
import type { DeviceArray } from "../gpu/device-array.js";
import type { DeviceBuffer } from "../gpu/device-buffer.js";
import { Event } from "../gpu/event.js";
import { GrowingBuffer } from "../gpu/growing-memory.js";
import { Timeline } from "../gpu/timeline.js";
import type { Access } from "../os/mapping.js";
import { ownIdentity } from "../os/process-identity.js";
import {
  SHARED_DOCUMENT_VERSION,
  type SharedDocument,
  type SharedDocumentOf,
  type SharedMemoryDocument,
} from "../wire/shared-document.js";
import { bufferOf, describe, exportFor } from "./exported-memory.js";
import { type FdRegistration, registerFds, registerGrowing } from "./fd-server.js";

export interface ShareOptions {
  /**
   * The most that openers get; default `read-write`. On the host device the kernel sees to `read`; on a GPU it is an agreement
   * among programs that use this package.
   */
  readonly access?: Access | undefined;
}

export class Shared<Document extends SharedDocument = SharedDocument> {
  /** Plain JSON, for `process.send`, `postMessage` and files. */
  readonly document: Document;
  readonly #registration: FdRegistration | undefined;

  /** Made by `share`; without a registration where the document alone is enough. */
  constructor(document: Document, registration?: FdRegistration) {
    this.document = document;
    this.#registration = registration;
  }

  /** What `JSON.stringify`, and with it a message of `child_process`, takes for this. */
  toJSON(): Document {
    return this.document;
  }

  /** Nobody can open it from here on, but by a handle (an event, memory of the legacy mechanism). Who has opened it keeps it. */
  close(): void {
    this.#registration?.withdraw();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** What a process can share without a hub. */
export type Shareable = DeviceArray | DeviceBuffer | GrowingBuffer | Event | Timeline;

/**
 * Shares what was made in this process. Memory lives until the result is closed, also where the array is closed before (memory of a pool and
 * memory that grows only while it is open here); the result does not keep the process from ending, and ends with it. Memory of the legacy
 * mechanism has a handle of its own: `IpcArrayHandle.of(array)`, which `openShared` opens too.
 * @throws UNSUPPORTED for what was itself opened, TypeError for memory of a pool that is not `ready`, UNSAFE_RUNTIME_DIR
 * @example
 * using shared = share(array);
 * child.send(shared.document);
 */
export function share(source: DeviceArray | DeviceBuffer, options?: ShareOptions): Shared<SharedMemoryDocument>;
export function share(source: GrowingBuffer): Shared<SharedDocumentOf<"growing">>;
export function share(source: Event): Shared<SharedDocumentOf<"event">>;
export function share(source: Timeline): Shared<SharedDocumentOf<"timeline">>;
export function share(source: Shareable, options: ShareOptions = {}): Shared {
  const access = checkOneOf("access", options.access ?? "read-write", ["read", "read-write"]);
  if (source instanceof Event) return new Shared(source.export());
  if (source instanceof Timeline) return shareTimeline(source);
  if (source instanceof GrowingBuffer) return shareGrowing(source);
  return shareMemory(source, access);
}

function head(): Pick<SharedDocument, "format" | "exporter"> & { readonly version: typeof SHARED_DOCUMENT_VERSION } {
  return { format: "cuda-ipc", version: SHARED_DOCUMENT_VERSION, exporter: ownIdentity() };
}

function shareMemory(source: DeviceArray | DeviceBuffer, access: Access): Shared<SharedMemoryDocument> {
  const { kind, descriptor } = describe(source);
  return acquireIn((scope) => {
    const fd = scope.own(exportFor(bufferOf(source), access), (fd) => fd.close());
    const registration = registerFds([fd]);
    return new Shared({ ...head(), kind, access, descriptor, fds: registration.fds }, registration);
  });
}

/** WHY a descriptor that allows writing: whoever opens it ends the timeline when this process dies, with nobody else to do it. */
function shareTimeline(timeline: Timeline): Shared<SharedDocumentOf<"timeline">> {
  return acquireIn((scope) => {
    const registration = registerFds([scope.own(timeline.exportWritableFd(), (fd) => fd.close())]);
    return new Shared({ ...head(), kind: "timeline", ...timeline.place, fds: registration.fds }, registration);
  });
}

function shareGrowing(memory: GrowingBuffer): Shared<SharedDocumentOf<"growing">> {
  const { fds, descriptor } = memory.export();
  for (const fd of fds) fd.close();
  const registration = registerGrowing(memory);
  return new Shared({ ...head(), kind: "growing", descriptor, fds: registration.fds }, registration);
}
