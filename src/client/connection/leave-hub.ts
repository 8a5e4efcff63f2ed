/** Closes everything that was made through a hub, in order, and leaves the hub. */
import type { CudaIpcError } from "../../base/errors.js";
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
      objects.handles.close();
    } finally {
      await devices.idle();
      goodbye = await objects.handles.settled(defaults.goodbyeTimeoutMs);
    }
  } finally {
    await link.close({ goodbye }).finally(() => devices.close());
  }
}

/**
 * Once the hub has disconnected this client: ends its channels and timelines, then tells the hub
 * that nothing of the session is in use. Mapped memory stays usable.
 */
export function leaveWhenDisconnected(link: HubLink, objects: HubObjects): void {
  link.onEnd((reason) => {
    if (reason.code !== "DISCONNECTED") return;
    leaveDisconnected(link, objects, reason).catch(() => {
      // What could not be closed stays this client's until the process ends.
    });
  });
}

async function leaveDisconnected(
  link: HubLink,
  objects: HubObjects,
  reason: CudaIpcError,
): Promise<void> {
  // No goodbye if streams continue, as above.
  if (await objects.handles.disconnect(reason, defaults.goodbyeTimeoutMs))
    await link.sayGoodbye(defaults.goodbyeTimeoutMs);
}
