/** Replaces the hub by the next one, and waits until that one answers. */
import type { Deadline } from "../../base/deadline.js";
import { retryPause } from "../../base/pause.js";
import type { HubStatus } from "../../wire/messages.js";
import type { HubLink } from "./hub-link.js";

/** @throws NO_KEEPER, HUB_UNAVAILABLE, PERMISSION_DENIED, TIMEOUT, ABORTED */
export async function restartHub(link: HubLink, deadline: Deadline): Promise<HubStatus> {
  const { instance } = await link.request("status", {}, deadline);
  await link.request("restart", {}, deadline);
  for (;;) {
    const status = await link.request("status", {}, deadline);
    if (status.instance !== instance) return status;
    // The old hub has answered before it ended.
    await retryPause(deadline);
  }
}
