/**
 * What a hub and its gate say to each other. The hub sends one byte and a client's socket; the gate answers with lines of JSON, some of
 * which announce the client's own message as the next packet.
 */

import { isErrorCode } from "../base/error-codes.js";
import { CudaIpcError } from "../base/errors.js";

/** What the gate is to do with a socket. */
export const gateOrders = {
  /** Receive the messages with descriptors that are next in it. */
  receive: 1,
  /** Keep it, with what lies in it, until the gate ends. */
  keep: 2,
} as const;

export type GateLine =
  | { readonly kind: "ready" }
  /** The next packet is a client's message with its descriptors. */
  | ({ readonly kind: "message" } & PerhapsLast)
  /** The next packet is a client's message without its descriptors, of which not all can be taken. */
  | ({ readonly kind: "refused"; readonly code: string; readonly message: string } & PerhapsLast)
  /** The order was carried out. `kept` counts the descriptors that the gate has since and cannot close. */
  | { readonly kind: "done"; readonly kept: number };

interface PerhapsLast {
  /** With the next packet the order is carried out, as by "done". */
  readonly kept?: number;
}

export function encodeGateLine(line: GateLine): Uint8Array {
  return Buffer.from(JSON.stringify(line));
}

/** Of the gate, which is trusted. */
export function decodeGateLine(bytes: Uint8Array): GateLine {
  return JSON.parse(Buffer.from(bytes).toString()) as GateLine;
}

export function refusalIn({ code, message }: Extract<GateLine, { kind: "refused" }>): CudaIpcError {
  return new CudaIpcError(isErrorCode(code) ? code : "INVALID_DESCRIPTOR", message);
}
