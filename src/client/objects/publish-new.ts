/** Creates, fills and publishes one new object. If a step fails, nothing is left. */
import { Deadline } from "../../base/deadline.js";
import { hasCode } from "../../base/errors.js";
import { defaults } from "../../base/limits.js";
import type { DeviceBuffer } from "../../gpu/memory/device-buffer.js";
import type { HubLink } from "../connection/hub-link.js";
import type { CreateOptions, ReplaceOptions } from "../hub-options.js";
import type { HubObjects } from "./hub-objects.js";
import type { SharedArray } from "./shared-array.js";
import type { SharedBundle } from "./shared-bundle.js";

/** The way to register and remove names. */
export interface PublishingHub {
  readonly objects: HubObjects;
  readonly link: HubLink;
}

interface NewObject<T> {
  readonly byteLength: number;
  /** Registers the name. Takes over `memory` once it resolves. */
  create(memory: number | DeviceBuffer, options: CreateOptions): Promise<T>;
  fill(buffer: DeviceBuffer): Promise<void>;
}

/** Replaces this object alone. If another one has the name by then, NAME_TAKEN says so. */
interface ReplacedObject {
  readonly replacedObject?: number | undefined;
}

export async function publishNew<T extends SharedArray | SharedBundle>(
  hub: PublishingHub,
  name: string,
  made: NewObject<T>,
  given: CreateOptions & ReplaceOptions & ReplacedObject,
  deadline: Deadline,
): Promise<T> {
  const shared =
    given.replace || given.replacedObject !== undefined
      ? await createFilled(hub, name, made, given, deadline)
      : await createAndFill(made, given, deadline);
  try {
    await publish(hub, shared, deadline);
    return shared;
  } catch (error) {
    shared.close();
    throw error;
  }
}

/** Takes the name first, so that NAME_TAKEN comes before anything is copied. */
async function createAndFill<T extends SharedArray | SharedBundle>(
  { byteLength, create, fill }: NewObject<T>,
  given: CreateOptions,
  deadline: Deadline,
): Promise<T> {
  const shared = await create(byteLength, { ...given, ...deadline.rest() });
  try {
    await fill(shared.buffer);
    return shared;
  } catch (error) {
    shared.close();
    throw error;
  }
}

/** The older object keeps the name until the memory of the new one is filled. */
async function createFilled<T>(
  { objects, link }: PublishingHub,
  name: string,
  { byteLength, create, fill }: NewObject<T>,
  given: CreateOptions & ReplacedObject,
  deadline: Deadline,
): Promise<T> {
  const buffer = objects.allocate(name, byteLength, given);
  try {
    await fill(buffer);
    await removeIfThere(link, name, given.replacedObject, deadline);
    return await create(buffer, { ...given, ...deadline.rest() });
  } catch (error) {
    buffer.close();
    throw error;
  }
}

/** @param object the only one to be removed; undefined for whichever has the name */
async function removeIfThere(
  link: HubLink,
  name: string,
  object: number | undefined,
  whole: Deadline,
): Promise<void> {
  const deadline = new Deadline(`remove "${name}"`, whole.rest(), defaults.requestTimeoutMs);
  try {
    await link.request("remove", { name, object }, deadline);
  } catch (error) {
    if (!hasCode(error, "NOT_FOUND") && !hasCode(error, "STALE_HANDLE")) throw error;
  }
}

/** How long `put` and `load` wait for a hub to remove a name whose publishing was given up. */
const TAKE_BACK_MS = 1000;

async function publish(
  { link }: PublishingHub,
  shared: SharedArray | SharedBundle,
  deadline: Deadline,
): Promise<void> {
  try {
    await shared.publish(deadline.rest());
  } catch (error) {
    if (hasCode(error, "TIMEOUT") || hasCode(error, "ABORTED")) {
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
