/** The pause between two looks for something that another process is about to make and that nothing tells of. */
import type { Deadline } from "./deadline.js";

const PAUSE_MS = 10;

/** @throws TIMEOUT, ABORTED */
export async function retryPause(deadline: Deadline): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const pause = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, PAUSE_MS);
  });
  await deadline.race(pause, () => clearTimeout(timer));
}
