/**
 * The messages between a hub and its gate. The hub sends one byte and a client's socket. The gate
 * answers with lines of JSON. Some lines announce that the next packet is the client's message.
 */

import { isErrorCode } from "../../base/error-codes.js";
import { CudaIpcError } from "../../base/errors.js";

/** Orders for a socket. */
export const gateOrders = {
  /** Receive the next messages that have descriptors. */
  receive: 1,
  /** Keep it, unread, until the gate ends. */
  keep: 2,
} as const;

export type GateLine =
  /** The next packet is a client's message with its descriptors. */
  | ({ readonly kind: "message" } & PerhapsLast)
  /**
   * The next packet is a client's message. Its descriptors stay here, because the hub takes not all
   * of them.
   */
  | ({ readonly kind: "refused"; readonly code: string; readonly message: string } & PerhapsLast)
  /**
   * The order is done. `kept` counts the descriptors that it added to those the gate cannot close.
   */
  | { readonly kind: "done"; readonly kept: number };

interface PerhapsLast {
  /** If present, the next packet also completes the order, like "done". */
  readonly kept?: number;
}

export function encodeGateLine(line: GateLine): Uint8Array {
  return Buffer.from(JSON.stringify(line));
}

/** Parses without checks: the hub trusts its gate. */
export function decodeGateLine(bytes: Uint8Array): GateLine {
  return JSON.parse(Buffer.from(bytes).toString()) as GateLine;
}

export function refusalIn({ code, message }: Extract<GateLine, { kind: "refused" }>): CudaIpcError {
  return new CudaIpcError(isErrorCode(code) ? code : "INVALID_DESCRIPTOR", message);
}
