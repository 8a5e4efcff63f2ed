/** Opens an event that another process shares by its handle. */
import type { Device } from "../gpu/device.js";
import { Event } from "../gpu/event.js";
import { parseKind } from "./open-shared.js";

/**
 * As `Event.import`, for what `share` made of an event.
 * @throws INVALID_DESCRIPTOR, WRONG_KIND, INVALID_HANDLE, OWN_HANDLE, STALE_HANDLE
 */
export function openSharedEvent(device: Device, document: unknown, options: { readonly label?: string } = {}): Event {
  return Event.import(device, parseKind(document, ["event"]), options);
}
