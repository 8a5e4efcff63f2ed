/** Timelines that have a name on the hub. The hub ends them for everybody if their owner dies. */
import { Deadline, type WaitOptions } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { defaults, limits } from "../../base/limits.js";
import { LINE_BYTES } from "../../base/timeline-line.js";
import type { Device } from "../../gpu/device.js";
import type { ImportedTimeline, Timeline } from "../../gpu/order/timeline.js";
import { DESCRIPTOR_VERSION, type Descriptor } from "../../wire/descriptor.js";
import { checkName } from "../../wire/names.js";
import { operations } from "../client-diagnostics.js";
import type { ReplaceOptions, SharingOptions } from "../hub-options.js";
import type { HubObjects, OpenedObject } from "./hub-objects.js";
import type { SharedHandle } from "./shared-object.js";

export interface NamedTimelineOptions extends WaitOptions {
  /** The device that keeps the timeline. Streams of all devices of this process can use it. */
  readonly device?: string | undefined;
}

export interface CreateTimelineOptions extends NamedTimelineOptions, ReplaceOptions {
  /**
   * When this process has closed it or is gone: "end" (default), or "wait" for a process that calls
   * `resumeTimeline`. With "wait" it stays until `remove`, even if no process has it open.
   */
  readonly whenOwnerGone?: "end" | "wait" | undefined;
  /** Other users who may wait for it. By default only this process's user (and root). */
  readonly sharing?: Omit<SharingOptions, "access" | "machines"> | undefined;
}

export interface OpenTimelineOptions extends NamedTimelineOptions {
  /** Wait until there is a timeline of this name (default). With false: NOT_FOUND at once. */
  readonly wait?: boolean | undefined;
}

export async function createTimeline(
  objects: HubObjects,
  name: string,
  device: Device,
  options: CreateTimelineOptions,
): Promise<Timeline> {
  checkName(name);
  const message = { name, kind: "timeline", byteLength: LINE_BYTES } as const;
  const deadline = new Deadline(`create "${name}"`, options, defaults.requestTimeoutMs);
  const create = () => createOnce(objects, name, device, options, deadline);
  return operations.create.run(message, async () => {
    for (;;) {
      const timeline = await create().catch((error) => Promise.reject(deadline.named(error)));
      if (!timeline.ended) return timeline;
      // Repeat: the answer to the first request was lost, and the hub has ended the result of it.
      timeline.close();
    }
  });
}

async function createOnce(
  objects: HubObjects,
  name: string,
  device: Device,
  options: CreateTimelineOptions,
  deadline: Deadline,
): Promise<Timeline> {
  let handle: SharedHandle | undefined;
  const { whenOwnerGone = "end" } = options;
  const onClose = () => handle?.close();
  const timeline =
    whenOwnerGone === "wait"
      ? device.timelines.createAwaiting(name, onClose)
      : device.createTimeline({ label: name, onClose });
  try {
    const memory = { bring: () => [timeline.exportWritableFd()], close: () => {} };
    const facts = await objects.register(name, describe(timeline, whenOwnerGone), memory, {
      ...options,
      lifetime: whenOwnerGone === "wait" ? "pinned" : "held",
      timeoutMs: deadline.remainingMs,
    });
    timeline.nameHub(objects.link.socketPath);
    handle = objects.handles.track(facts, timeline);
    await handle.publish({ signal: deadline.signal, timeoutMs: deadline.remainingMs });
    return timeline;
  } catch (error) {
    objects.handles.giveUp(handle?.object, () => timeline.close());
    throw error;
  }
}

export function openTimeline(
  objects: HubObjects,
  name: string,
  device: Device,
  options: OpenTimelineOptions,
): Promise<ImportedTimeline> {
  return objects.open(name, options, (opened) => {
    const content = timelineOf(opened, "open");
    let handle: SharedHandle | undefined;
    const timeline = device.importTimeline(opened.fds[0], content, {
      label: name,
      onClose: () => handle?.close(),
    });
    timeline.nameHub(objects.link.socketPath);
    handle = objects.handles.track(opened, () => timeline.close());
    return timeline;
  });
}

/** Becomes the owner of a timeline whose owner is gone. */
export function resumeTimeline(
  objects: HubObjects,
  name: string,
  device: Device,
  options: OpenTimelineOptions,
): Promise<Timeline> {
  return objects.openAsOwner(name, options, (opened) => {
    const content = timelineOf(opened, "resume");
    let handle: SharedHandle | undefined;
    const onClose = () => handle?.close();
    const timeline = device.timelines.resume(name, opened.fds[0], content, onClose);
    timeline.nameHub(objects.link.socketPath);
    handle = objects.handles.track(opened, timeline);
    return timeline;
  });
}

/** @throws WRONG_KIND */
function timelineOf({ name, descriptor }: OpenedObject, verb: string) {
  const { content } = descriptor;
  if (content.kind === "timeline") return content;
  throw new CudaIpcError(
    "WRONG_KIND",
    `Cannot ${verb} "${name}" as a timeline: it is of kind ${content.kind}`,
  );
}

function describe(timeline: Timeline, whenOwnerGone: "end" | "wait"): Descriptor {
  const { byteOffset } = timeline;
  return {
    version: DESCRIPTOR_VERSION,
    device: { kind: "host" },
    mechanism: "memfd",
    byteLength: limits.timelineArenaBytes,
    allocationByteLength: limits.timelineArenaBytes,
    content: {
      kind: "timeline",
      byteOffset,
      ...(whenOwnerGone === "wait" && { whenOwnerGone }),
    },
  };
}
