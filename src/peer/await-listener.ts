/** Connects to a process that may not be listening yet; tells one that never came from one that has died. */
import type { Deadline } from "../base/deadline.js";
import { CudaIpcError, hasCode, SystemError } from "../base/errors.js";
import { retryPause } from "../base/retry-pause.js";
import { PeerLink } from "./peer-link.js";

const FOUND: Readonly<Record<string, string>> = {
  ENOENT: "there is no such socket; is the other process running?",
  ECONNREFUSED: "a socket file is there, and nobody listens on it: who made it has ended",
  EAGAIN: "who listens does not take new connections",
};

/**
 * @throws TIMEOUT where nobody came in time, PEER_GONE where at the end of the time a stale socket file was there; UNTRUSTED_PEER, ABORTED
 */
export async function awaitListener(path: string, deadline: Deadline): Promise<PeerLink> {
  for (;;) {
    if (deadline.signal?.aborted) throw deadline.aborted();
    let absence: SystemError;
    try {
      return PeerLink.connect(path);
    } catch (error) {
      if (!(error instanceof SystemError) || !Object.hasOwn(FOUND, error.errnoName)) throw error;
      absence = error;
    }
    try {
      await retryPause(deadline);
    } catch (error) {
      if (!hasCode(error, "TIMEOUT")) throw error;
      const message = `${error.message}; at ${path} ${FOUND[absence.errnoName]}`;
      throw new CudaIpcError(absence.errnoName === "ECONNREFUSED" ? "PEER_GONE" : "TIMEOUT", message, {
        cause: absence,
      });
    }
  }
}
