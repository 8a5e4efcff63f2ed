/**
 * Connects to a process that may not listen yet. Its errors tell a process that never started from
 * one that died.
 */
import type { Deadline } from "../base/deadline.js";
import { CudaIpcError, hasCode, SystemError } from "../base/errors.js";
import { retryPause } from "../base/pause.js";

const FOUND: Readonly<Record<string, string>> = {
  ENOENT: "there is no such socket. Check that the other process runs",
  ECONNREFUSED:
    "there is a socket file but nobody listens, because the process that made it has ended",
  EAGAIN: "the listening process accepts no connections",
};

/**
 * Calls `connect`, which connects to the path, and again until the deadline.
 * @throws TIMEOUT if nobody listened in time
 * @throws PEER_GONE if a stale socket file is at the path when the time is over
 * @throws UNTRUSTED_PEER, ABORTED
 */
export async function awaitListener<Link>(
  path: string,
  deadline: Deadline,
  connect: () => Link,
): Promise<Link> {
  for (;;) {
    if (deadline.signal?.aborted) throw deadline.aborted();
    let absence: SystemError;
    try {
      return connect();
    } catch (error) {
      if (!(error instanceof SystemError) || !Object.hasOwn(FOUND, error.errnoName)) throw error;
      absence = error;
    }
    try {
      await retryPause(deadline);
    } catch (error) {
      if (!hasCode(error, "TIMEOUT")) throw error;
      const message = `${error.message}; at ${path} ${FOUND[absence.errnoName]}`;
      throw new CudaIpcError(
        absence.errnoName === "ECONNREFUSED" ? "PEER_GONE" : "TIMEOUT",
        message,
        {
          cause: absence,
        },
      );
    }
  }
}
