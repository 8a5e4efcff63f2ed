/**
 * Shares memory of this process without a hub: a document that says what it is, for messages and files, and the descriptors for
 * those who come with it.
 */
import { checkOneOf } from "../base/one-of.js";
import { acquireIn } from "../base/scope.js";
import type { DeviceArray } from "../gpu/device-array.js";
import type { DeviceBuffer } from "../gpu/device-buffer.js";
import type { Access } from "../os/mapping.js";
import { ownIdentity } from "../os/process-identity.js";
import { SHARED_DOCUMENT_VERSION, type SharedDocument } from "../wire/shared-document.js";
import { bufferOf, describe, exportFor } from "./exported-memory.js";
import { type FdRegistration, registerFds } from "./fd-server.js";

export interface ShareOptions {
  /**
   * The most that openers get; default `read-write`. On the host device the kernel sees to `read`; on a GPU it is an agreement
   * among programs that use this package.
   */
  readonly access?: Access | undefined;
}

export class Shared {
  /** Plain JSON, for `process.send`, `postMessage` and files. */
  readonly document: SharedDocument;
  readonly #registration: FdRegistration;

  /** Made by `share`. */
  constructor(document: SharedDocument, registration: FdRegistration) {
    this.document = document;
    this.#registration = registration;
  }

  /** What `JSON.stringify`, and with it a message of `child_process`, takes for this. */
  toJSON(): SharedDocument {
    return this.document;
  }

  /** Nobody can open it from here on. Who has opened it keeps it. */
  close(): void {
    this.#registration.withdraw();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/**
 * Shares an array or a buffer that was allocated in this process. The memory lives until the result is closed, also where the
 * array is closed before; the result does not keep the process from ending, and ends with it.
 * @throws UNSUPPORTED for memory that was itself opened, UNSAFE_RUNTIME_DIR
 * @example
 * using shared = share(array);
 * child.send(shared.document);
 */
export function share(source: DeviceArray | DeviceBuffer, options: ShareOptions = {}): Shared {
  const access = checkOneOf("access", options.access ?? "read-write", ["read", "read-write"]);
  const { kind, descriptor } = describe(source);
  return acquireIn((scope) => {
    const fd = scope.own(exportFor(bufferOf(source), access), (fd) => fd.close());
    const exporter = ownIdentity();
    const registration = registerFds([fd]);
    const document: SharedDocument = {
      format: "cuda-ipc",
      version: SHARED_DOCUMENT_VERSION,
      kind,
      exporter,
      access,
      descriptor,
      fds: registration.fds,
    };
    return new Shared(document, registration);
  });
}
