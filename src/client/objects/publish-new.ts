/** Creates, fills and publishes one new object. If a step fails, nothing is left. */
import { Deadline } from "../../base/deadline.js";
import { hasCode } from "../../base/errors.js";
import { defaults } from "../../base/limits.js";
import type { DeviceBuffer } from "../../gpu/memory/device-buffer.js";
import type { HubLink } from "../connection/hub-link.js";
import type { HubObjects, NewObjectOptions } from "./hub-objects.js";
import type { SharedArray } from "./shared-array.js";
import type { SharedBundle } from "./shared-bundle.js";

/** The way to register and remove names. */
export interface PublishingHub {
  readonly objects: HubObjects;
  readonly link: HubLink;
}

interface NewObject<T> {
  readonly byteLength: number;
  /** Registers the name, with memory for it. */
  create(byteLength: number, options: NewObjectOptions): Promise<T>;
  fill(buffer: DeviceBuffer): Promise<void>;
}

export async function publishNew<T extends SharedArray | SharedBundle>(
  { link, objects }: PublishingHub,
  { byteLength, create, fill }: NewObject<T>,
  given: NewObjectOptions,
  deadline: Deadline,
): Promise<T> {
  // First, so that NAME_TAKEN comes before anything is copied.
  const shared = await create(byteLength, { ...given, ...deadline.rest() });
  try {
    await fill(shared.buffer);
    await publish(link, shared, given, deadline);
    return shared;
  } catch (error) {
    objects.handles.giveUp(shared.object, () => shared.close());
    throw error;
  }
}

/** How long `put` and `load` wait for a hub to remove a name whose publishing was given up. */
const TAKE_BACK_MS = 1000;

async function publish(
  link: HubLink,
  shared: SharedArray | SharedBundle,
  { replace = false }: NewObjectOptions,
  deadline: Deadline,
): Promise<void> {
  try {
    await shared.publish(deadline.rest());
  } catch (error) {
    // One that replaces stays if it was published: without it, nothing would have the name.
    if (replace === false && (hasCode(error, "TIMEOUT") || hasCode(error, "ABORTED"))) {
      // The hub may carry out the request all the same, and a pinned object would stay for ever. A
      // hub that does not answer in time is still told.
      const isTakenBack = takeBack(link, shared).catch(() => {});
      await new Deadline("take a name back", {}, TAKE_BACK_MS)
        .race(isTakenBack, () => {})
        .catch(() => {});
    }
    throw error;
  }
}

async function takeBack(
  link: HubLink,
  { name, object }: SharedArray | SharedBundle,
): Promise<void> {
  const deadline = new Deadline(`take back "${name}"`, {}, defaults.requestTimeoutMs);
  // By its number, because another process may have taken the name meanwhile.
  await link.request("remove", { name, object }, deadline);
}
