/**
 * Several GPUs of one process: who can reach whom, and copies between them.
 * https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__PEER__ACCESS.html
 *
 * Virtual memory (mechanism vmm) needs no enabling: its mapping names the device that uses it.
 */
import { checkInteger } from "../../base/bytes.js";
import { cuResult } from "../../ffi/cuda-constants.js";
import type { DevicePointer } from "../gpu-driver.js";
import type { PeerCalls } from "../peer-calls.js";
import type { CudaParts } from "./cuda-driver.js";
import type { CudaSession } from "./cuda-session.js";

export function createCudaPeers({ session, streams }: CudaParts): PeerCalls {
  return {
    canAccessPeer: (ordinal, peer) => canAccessPeer(session, ordinal, peer),

    enablePeerAccess(ordinal, peer) {
      if (ordinal === peer) return;
      const context = session.context(peer);
      const status = session.enter(ordinal).cuCtxEnablePeerAccess(context, 0);
      if (status === cuResult.CUDA_SUCCESS || status === cuResult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) return;
      throw session.failure(status, "cuCtxEnablePeerAccess", `let cuda:${ordinal} use memory of cuda:${peer}`);
    },

    copyBetweenDevices(stream, to, from, byteLength) {
      const { cuda, handle, ordinal } = streams.enter(stream);
      if (checkInteger("Copy: byteLength", byteLength, 0) === 0) return;
      streams.check(to.ordinal, to.pointer, byteLength, "read-write");
      streams.check(from.ordinal, from.pointer, byteLength, "read");
      const contexts = { to: session.context(to.ordinal), from: session.context(from.ordinal) };
      session.enter(ordinal);
      // SAFETY: both ranges are the caller's until the stream has passed the copy.
      const status = cuda.cuMemcpyPeerAsync(to.pointer, contexts.to, from.pointer, contexts.from, byteLength, handle);
      if (status !== cuResult.CUDA_SUCCESS) {
        throw session.failure(status, "cuMemcpyPeerAsync", `copy ${between(byteLength, from, to)}`);
      }
    },
  };
}

function canAccessPeer(session: CudaSession, ordinal: number, peer: number): boolean {
  const [device, peerDevice] = [session.device(ordinal), session.device(peer)];
  if (ordinal === peer) return true;
  const out = new Int32Array(1);
  const status = session.cuda.cuDeviceCanAccessPeer(out, device, peerDevice);
  if (status !== cuResult.CUDA_SUCCESS) {
    throw session.failure(status, "cuDeviceCanAccessPeer", `ask whether cuda:${ordinal} reaches cuda:${peer}`);
  }
  return out[0] === 1;
}

interface End {
  readonly ordinal: number;
  readonly pointer: DevicePointer;
}

function between(byteLength: number, from: End, to: End): string {
  return `${byteLength} bytes from cuda:${from.ordinal} to cuda:${to.ordinal}`;
}
