/** Errors as they travel between processes: by code and message. */
import { isErrorCode } from "../base/error-codes.js";
import { CudaIpcError, messageOf } from "../base/errors.js";
import { PEER_VERSION, type Refusal } from "../wire/peer-messages.js";

const MESSAGE_LENGTH_MAX = 1024;

export function refusalOf(error: unknown): Refusal {
  const code = error instanceof CudaIpcError ? error.code : "SYSTEM_ERROR";
  const message = messageOf(error);
  return { v: PEER_VERSION, ok: false, error: { code, message: message.slice(0, MESSAGE_LENGTH_MAX) } };
}

/** The error that the other side speaks of; a code that is not known here becomes SYSTEM_ERROR. */
export function refusedBy({ error }: Refusal): CudaIpcError {
  return new CudaIpcError(isErrorCode(error.code) ? error.code : "SYSTEM_ERROR", error.message);
}
