/** A pause that a signal ends early. */
import { setTimeout as delay } from "node:timers/promises";

/** Resolves either way. */
export async function pauseFor(pauseMs: number, signal: AbortSignal): Promise<void> {
  await delay(pauseMs, undefined, { signal }).catch(() => {});
}
