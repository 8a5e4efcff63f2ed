/** Closes everything that was made through a hub, in order, and leaves the hub. */
import { defaults } from "../../base/limits.js";
import type { Devices } from "../devices.js";
import type { HubObjects } from "../objects/hub-objects.js";
import type { HubLink } from "./hub-link.js";

export async function leaveHub(
  link: HubLink,
  objects: HubObjects,
  devices: Devices,
): Promise<void> {
  // No goodbye if streams continue or a device has failed: what they still use must stay theirs
  // until this process ends.
  let goodbye = false;
  try {
    try {
      objects.close();
    } finally {
      await devices.idle();
      goodbye = await objects.settled(defaults.goodbyeTimeoutMs);
    }
  } finally {
    await link.close({ goodbye }).finally(() => devices.close());
  }
}
