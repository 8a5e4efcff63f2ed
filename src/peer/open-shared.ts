/**
 * Opens what another process shares without a hub: the document is checked, the file descriptors
 * are fetched from the exporter, and the thing is opened by its kind.
 */
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { defaults } from "../base/limits.js";
import { aString, type Check, oneOf, optionsOf, waitChecks } from "../base/option-checks.js";
import { acquireIn, acquireInAsync } from "../base/scope.js";
import { shownValue } from "../base/shown-value.js";
import type { DeviceArray } from "../gpu/arrays/device-array.js";
import { IpcArrayHandle } from "../gpu/arrays/ipc-array-handle.js";
import { Device } from "../gpu/device.js";
import type { DeviceBuffer } from "../gpu/memory/device-buffer.js";
import { GrowingBuffer } from "../gpu/memory/growing-buffer.js";
import { Event } from "../gpu/order/event.js";
import type { ImportedTimeline } from "../gpu/order/timeline.js";
import { closeFds } from "../os/foreign-fd.js";
import type { Access } from "../os/mapping.js";
import type { Descriptor } from "../wire/descriptor.js";
import { checkGrowingDescriptor } from "../wire/growing-descriptor.js";
import {
  parseSharedDocument,
  type SharedDocument,
  type SharedDocumentOf,
  type SharedKind,
} from "../wire/shared-document.js";
import { fetchFds, fetchGrowth } from "./fetch-fds.js";
import { lendDevice } from "./lent-devices.js";
import { arrayOn, mapArrived } from "./map-arrived.js";
import { openTimeline } from "./shared-timeline.js";

export interface OpenSharedOptions extends WaitOptions {
  /**
   * The device to open it on: a `Device`, which stays the caller's, or for memory also its name.
   * By default the device that the memory is on, or `CUDA_IPC_DEVICE` for a raw handle of CUDA,
   * which does not say. Timelines, events and memory that grows need one.
   */
  readonly device?: Device | string | undefined;
  /** Default `read`. */
  readonly access?: Access | undefined;
  /** The name in error messages. */
  readonly label?: string | undefined;
}

/** The result of `openShared` for each `kind`. */
export interface OpenedKinds {
  array: DeviceArray;
  buffer: DeviceBuffer;
  growing: GrowingBuffer;
  event: Event;
  timeline: ImportedTimeline;
}

const aDevice: Check = (option, value) => {
  if (!(value instanceof Device) && typeof value !== "string")
    throw new TypeError(`${option} must be a Device or the name of one, not ${shownValue(value)}`);
};

export const openSharedChecks = {
  ...waitChecks,
  device: aDevice,
  access: oneOf("read", "read-write"),
  label: aString,
} as const;

const checkOpen = optionsOf<OpenSharedOptions & { readonly kind?: string }>("openShared()", {
  ...openSharedChecks,
  kind: oneOf("array", "buffer", "growing", "event", "timeline"),
});

/**
 * Opens the document that `share` made in this process or another, without a copy.
 * The document may come from anywhere: it is checked. Close the result. Memory stays after its
 * exporter has ended; a timeline ends with it.
 *
 * `kind` is what you expect, and gives the type of the result: `array` (the default; a shared
 * buffer is opened as its bytes), `buffer` (for a shared array the buffer that it lies in),
 * `growing`, `event` or `timeline`.
 * @throws WRONG_KIND, INVALID_DESCRIPTOR, PEER_GONE, STALE_HANDLE, READ_ONLY, DEVICE_NOT_FOUND,
 * UNTRUSTED_PEER, INVALID_HANDLE, OWN_HANDLE, TIMEOUT, ABORTED
 * @example
 * process.once("message", async (document) => {
 *   using array = await openShared(document);
 *   console.log(await array.read());
 * });
 */
export async function openShared<Kind extends keyof OpenedKinds = "array">(
  document: unknown,
  options: OpenSharedOptions & { readonly kind?: Kind | undefined } = {},
): Promise<OpenedKinds[Kind]> {
  checkOpen(options);
  const kind = options.kind ?? "array";
  const deadline = new Deadline("open the shared object", options, defaults.peerTimeoutMs);
  const parsed = parseSharedDocument("the document of a shared object", document);
  const { access = "read" } = options;
  deadline.check();
  const open: Opener<keyof OpenedKinds> = openers[kind];
  return (await open(parsed, { ...options, access }, deadline)) as OpenedKinds[Kind];
}

type Opener<Kind extends keyof OpenedKinds> = (
  document: SharedDocument,
  options: OpenSharedOptions & { readonly access: Access },
  deadline: Deadline,
) => Promise<OpenedKinds[Kind]>;

const openers: { readonly [Kind in keyof OpenedKinds]: Opener<Kind> } = {
  async array(document, options, deadline) {
    if (document.kind === "array-handle" || document.kind === "raw-handle")
      return openHandle(document, options);
    const { buffer, descriptor } = await openMemory(document, options, deadline);
    return arrayOn(buffer, descriptor);
  },

  async buffer(document, options, deadline) {
    return (await openMemory(document, options, deadline)).buffer;
  },

  async growing(document, options, deadline) {
    const { device, access, label } = options;
    const parsed = expectKind(document, ["growing"]);
    const descriptor = checkGrowingDescriptor(parsed.descriptor);
    const nothing = { ...descriptor, growth: { from: 0, byteLengths: [], byteLength: 0 } };
    return acquireInAsync(async (scope) => {
      const fetch = (from: number, deadline: Deadline) => fetchGrowth(parsed, from, deadline);
      const options = { access, label, fetch };
      const growing = GrowingBuffer.import(expectDevice(device, "growing"), [], nothing, options);
      scope.own(growing, (it) => it.close());
      await growing.follow({ signal: deadline.signal, timeoutMs: deadline.remainingMs });
      return growing;
    });
  },

  async event(document, { device, label }) {
    return Event.import(expectDevice(device, "event"), expectKind(document, ["event"]), { label });
  },

  async timeline(document, { device, label }, deadline) {
    const parsed = expectKind(document, ["timeline"]);
    return openTimeline(expectDevice(device, "timeline"), parsed, label, deadline);
  },
};

async function openMemory(
  value: SharedDocument,
  { device, access, label }: OpenSharedOptions & { readonly access: Access },
  deadline: Deadline,
): Promise<{ readonly buffer: DeviceBuffer; readonly descriptor: Descriptor }> {
  const document = expectKind(value, ["array", "buffer"]);
  const { descriptor, exporter } = document;
  checkGranted(document.access, access);
  const fds = await fetchFds(document, deadline);
  return acquireIn((scope) => {
    try {
      const name = label ?? `memory of process ${exporter.pid}`;
      const buffer = mapArrived(name, descriptor, fds, { device, access });
      return { buffer: scope.own(buffer, (it) => it.close()), descriptor };
    } finally {
      closeFds(fds);
    }
  });
}

/** Opens what is shared by a handle alone, by default on the device that it lies on. */
function openHandle(
  document: SharedDocumentOf<"array-handle" | "raw-handle">,
  { device, access, label }: OpenSharedOptions,
): DeviceArray {
  const handle = IpcArrayHandle.from(document);
  if (device instanceof Device) return handle.open(device, { access, label });
  return acquireIn((scope) => {
    const lent = scope.own(lendDevice(device, handle.device), (lent) => lent.giveBack());
    const array = handle.open(lent.device, { access, label });
    array.buffer.onUnmapped(() => lent.giveBack());
    return array;
  });
}

/** @throws WRONG_KIND */
function expectKind<Kind extends SharedKind>(
  document: SharedDocument,
  kinds: readonly Kind[],
): SharedDocumentOf<Kind> {
  if ((kinds as readonly SharedKind[]).includes(document.kind))
    return document as SharedDocumentOf<Kind>;
  throw new CudaIpcError(
    "WRONG_KIND",
    `Cannot open the shared object: it is of kind ${document.kind}, wanted ${kinds.join(" or ")}`,
  );
}

function expectDevice(device: OpenSharedOptions["device"], kind: string): Device {
  if (device instanceof Device) return device;
  throw new TypeError(`device must be a Device to open what is shared as kind "${kind}" on`);
}

/** @throws READ_ONLY */
export function checkGranted(granted: Access, wanted: Access): void {
  if (granted === "read-write" || wanted === "read") return;
  throw new CudaIpcError(
    "READ_ONLY",
    "Cannot open the shared object for writing: it is shared for reading only",
  );
}
