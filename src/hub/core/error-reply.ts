/** The reply to a request that fails. */
import { CudaIpcError, messageOf } from "../../base/errors.js";
import { PROTOCOL_VERSION, type Reply } from "../../wire/messages.js";

const MESSAGE_CHARACTERS_MAX = 4096;

/** @param request the request's id, or 0 if it is unknown */
export function errorReply(request: number, error: unknown): Reply {
  const { code, message } = codeAndMessage(error);
  const clipped =
    message.length > MESSAGE_CHARACTERS_MAX
      ? `${message.slice(0, MESSAGE_CHARACTERS_MAX)}...`
      : message;
  return { v: PROTOCOL_VERSION, id: request, ok: false, error: { code, message: clipped } };
}

function codeAndMessage(error: unknown): { readonly code: string; readonly message: string } {
  if (error instanceof CudaIpcError) return { code: error.code, message: error.message };
  return { code: "SYSTEM_ERROR", message: `The hub failed: ${messageOf(error)}` };
}
