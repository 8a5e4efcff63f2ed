/**
 * The messages between a hub and the process that writes words for it. An order is JSON with the
 * file's descriptor. So is the answer, which is empty if the words are written.
 */
import { isErrorCode } from "../../base/error-codes.js";
import { CudaIpcError, messageOf } from "../../base/errors.js";
import type { WordOrder } from "./file-words.js";

interface Answer {
  readonly code?: string;
  readonly message?: string;
}

export function encodeOrder(order: WordOrder): Uint8Array {
  return Buffer.from(JSON.stringify(order));
}

/** Parses without checks: both processes are of one hub. */
export function decodeOrder(bytes: Uint8Array): WordOrder {
  return JSON.parse(Buffer.from(bytes).toString()) as WordOrder;
}

/** @param failure undefined if the words are written */
export function encodeAnswer(failure: unknown): Uint8Array {
  let answer: Answer = {};
  if (failure !== undefined) {
    const code = failure instanceof CudaIpcError ? failure.code : "INTERNAL_ERROR";
    answer = { code, message: messageOf(failure) };
  }
  return Buffer.from(JSON.stringify(answer));
}

/** Undefined if the words are written. */
export function failureIn(bytes: Uint8Array): CudaIpcError | undefined {
  const { code, message } = JSON.parse(Buffer.from(bytes).toString()) as Answer;
  if (code === undefined) return undefined;
  return new CudaIpcError(isErrorCode(code) ? code : "SYSTEM_ERROR", message ?? "");
}
