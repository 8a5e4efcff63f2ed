/** Opens what another process shares without a hub: the document is checked, the descriptors fetched, the memory mapped. */
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { defaults } from "../base/limits.js";
import { checkOneOf } from "../base/one-of.js";
import { acquireIn } from "../base/scope.js";
import { Device } from "../gpu/device.js";
import type { DeviceArray } from "../gpu/device-array.js";
import type { DeviceBuffer } from "../gpu/device-buffer.js";
import { IpcArrayHandle } from "../gpu/ipc-array-handle.js";
import type { Access } from "../os/mapping.js";
import type { Descriptor } from "../wire/descriptor.js";
import { parseSharedDocument, type SharedDocumentOf, type SharedKind } from "../wire/shared-document.js";
import { fetchFds } from "./fetch-fds.js";
import { lendDevice } from "./lent-devices.js";
import { arrayOn, mapArrived } from "./map-arrived.js";
import { closeFds } from "./peer-link.js";

export interface OpenSharedOptions extends WaitOptions {
  /** Where to map it: a device, which stays the caller's, or the name of one. Default: the device that the memory is of. */
  readonly device?: Device | string | undefined;
  /** Default `read`. */
  readonly access?: Access | undefined;
}

/**
 * The array of a document that `share` made, in this process or another, mapped without a copy; of a shared buffer its bytes.
 * The document may come from anywhere: it is checked. Close the result; it keeps the memory also when its exporter has ended.
 * @throws INVALID_DESCRIPTOR, PEER_GONE, STALE_HANDLE, READ_ONLY, DEVICE_NOT_FOUND, UNTRUSTED_PEER, TIMEOUT, ABORTED
 * @example
 * process.once("message", async (document) => {
 *   using array = await openShared(document);
 *   console.log(await array.read());
 * });
 */
export async function openShared(document: unknown, options: OpenSharedOptions = {}): Promise<DeviceArray> {
  const parsed = parseSharedDocument(WHAT, document);
  if (parsed.kind === "array-handle") return openHandle(parsed, options);
  const { buffer, descriptor } = await open(document, options);
  return arrayOn(buffer, descriptor);
}

/** As `openShared`, for the memory as a whole; of a shared array the buffer that it lies in. */
export async function openSharedBuffer(document: unknown, options: OpenSharedOptions = {}): Promise<DeviceBuffer> {
  return (await open(document, options)).buffer;
}

async function open(
  value: unknown,
  options: OpenSharedOptions,
): Promise<{ readonly buffer: DeviceBuffer; readonly descriptor: Descriptor }> {
  const access = checkAccess(options);
  const deadline = new Deadline("open what was shared", options, defaults.peerTimeoutMs);
  const document = parseKind(value, ["array", "buffer"]);
  const { descriptor, exporter } = document;
  checkGranted(document.access, access);
  deadline.check();
  const fds = await fetchFds(document, deadline);
  return acquireIn((scope) => {
    try {
      const label = `memory of process ${exporter.pid}`;
      const mapped = mapArrived(label, descriptor, fds, { device: options.device, access });
      return { buffer: scope.own(mapped, (buffer) => buffer.close()), descriptor };
    } finally {
      closeFds(fds);
    }
  });
}

/** What is shared by a handle alone is of the device that it lies on. */
function openHandle(document: SharedDocumentOf<"array-handle">, options: OpenSharedOptions): DeviceArray {
  const access = checkAccess(options);
  const handle = IpcArrayHandle.from(document);
  if (options.device instanceof Device) return handle.open(options.device, { access });
  return acquireIn((scope) => {
    const wanted = options.device as string | undefined;
    const lent = scope.own(lendDevice(wanted, document.device), (lent) => lent.giveBack());
    const array = handle.open(lent.device, { access });
    array.buffer.onUnmapped(() => lent.giveBack());
    return array;
  });
}

const WHAT = "the document of something shared";

/** @throws INVALID_DESCRIPTOR, WRONG_KIND */
export function parseKind<Kind extends SharedKind>(value: unknown, kinds: readonly Kind[]): SharedDocumentOf<Kind> {
  const document = parseSharedDocument(WHAT, value);
  if ((kinds as readonly SharedKind[]).includes(document.kind)) return document as SharedDocumentOf<Kind>;
  throw new CudaIpcError(
    "WRONG_KIND",
    `Cannot open what was shared: it is of kind ${document.kind}, wanted ${kinds.join(" or ")}`,
  );
}

/** @throws TypeError for what no device or access is */
export function checkAccess({ access = "read", device }: OpenSharedOptions): Access {
  if (device !== undefined && typeof device !== "string" && !(device instanceof Device)) {
    throw new TypeError(`device must be a Device or the name of one, not ${device === null ? "null" : typeof device}`);
  }
  return checkOneOf("access", access, ["read", "read-write"]);
}

/** @throws READ_ONLY */
export function checkGranted(granted: Access, wanted: Access): void {
  if (granted === "read-write" || wanted === "read") return;
  throw new CudaIpcError("READ_ONLY", "Cannot open what was shared for writing: it is shared for reading only");
}
