/** The error for a machine that does not answer any more. */
import { CudaIpcError } from "../../base/errors.js";

/** @param found why, as the end of a sentence */
export function peerGone(machine: string, found: string, cause?: unknown): CudaIpcError {
  const message = `Cannot reach machine "${machine}": ${found}`;
  return new CudaIpcError("PEER_GONE", message, { cause });
}
