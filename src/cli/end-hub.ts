/** Ending a hub, and waiting until it has let go of its clients. */
import type { Hub } from "../client/hub.js";

/**
 * Resolves once the hub hung up on this connection too.
 * @throws HUB_IN_USE
 */
export async function endHub(hub: Hub, options: { readonly force: boolean }): Promise<void> {
  const ended = new Promise<void>((resolve) => hub.onEnd(() => resolve()));
  await hub.stop(options);
  await ended;
}
