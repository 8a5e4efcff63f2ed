/** Stands in until this part of the seam is there. */
import { CudaIpcError } from "../../base/errors.js";
import type { PeerCalls } from "../peer-calls.js";
import type { CudaParts } from "./cuda-driver.js";

export function createCudaPeers(_parts: CudaParts): PeerCalls {
  const missing = (): never => {
    throw new CudaIpcError("UNSUPPORTED", "Cannot do this yet");
  };
  return {
    canAccessPeer: missing,
    enablePeerAccess: missing,
    copyBetweenDevices: missing,
  };
}
