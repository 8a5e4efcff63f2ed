/** Timelines that have a name on the hub, which ends them for everybody when their owner dies. */
import type { WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import type { Device } from "../gpu/device.js";
import type { ImportedTimeline, Timeline } from "../gpu/timeline.js";
import { DESCRIPTOR_VERSION, type Descriptor } from "../wire/descriptor.js";
import type { HubObjects } from "./hub-objects.js";
import type { SharingOptions } from "./hub-options.js";
import type { SharedHandle } from "./shared-object.js";

export interface TimelineOptions extends WaitOptions {
  /** Which device keeps the timeline with its others; streams of every device of this process can use it. */
  readonly device?: string | undefined;
}

export interface CreateTimelineOptions extends TimelineOptions {
  /** Other users who may wait for it; by default nobody beside this process's own user (and root). */
  readonly sharing?: Omit<SharingOptions, "access"> | undefined;
}

export interface OpenTimelineOptions extends TimelineOptions {
  /** Wait until there is a timeline of this name (default); false fails at once with NOT_FOUND. */
  readonly wait?: boolean | undefined;
}

export async function createTimeline(
  objects: HubObjects,
  name: string,
  device: Device,
  options: CreateTimelineOptions,
): Promise<Timeline> {
  for (;;) {
    const timeline = await createOnce(objects, name, device, options);
    if (!timeline.ended) return timeline;
    // WHY anew: the answer to the first request was lost with its connection, and the hub has ended what it had made of that request.
    timeline.close();
  }
}

async function createOnce(
  objects: HubObjects,
  name: string,
  device: Device,
  options: TimelineOptions,
): Promise<Timeline> {
  let handle: SharedHandle | undefined;
  const timeline = device.createTimeline({ label: name, onClose: () => handle?.close() });
  try {
    const memory = { bring: () => [timeline.exportWritableFd()], close: () => {} };
    handle = objects.track(await objects.register(name, describe(timeline), memory, options), timeline);
    await handle.publish(options);
    return timeline;
  } catch (error) {
    timeline.close();
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
    const { content } = opened.descriptor;
    if (content.kind !== "timeline") {
      throw new CudaIpcError("WRONG_KIND", `Cannot open "${name}" as a timeline: it is of kind ${content.kind}`);
    }
    let handle: SharedHandle | undefined;
    const timeline = device.importTimeline(opened.fds[0], content, { label: name, onClose: () => handle?.close() });
    handle = objects.track(opened, () => timeline.close());
    return timeline;
  });
}

function describe(timeline: Timeline): Descriptor {
  return {
    version: DESCRIPTOR_VERSION,
    device: { kind: "host" },
    mechanism: "memfd",
    byteLength: limits.timelineArenaBytes,
    allocationByteLength: limits.timelineArenaBytes,
    content: { kind: "timeline", byteOffset: timeline.byteOffset },
  };
}
