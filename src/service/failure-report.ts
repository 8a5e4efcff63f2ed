/** Describes an error of a handler for the client: its code and message, within a size limit. */
import { CudaIpcError, messageOf } from "../base/errors.js";
import { limits } from "../base/limits.js";
import type { JsonValue } from "../channel/message-meta.js";

const encoder = new TextEncoder();
const CODE_LENGTH_MAX = 64;

export function failureReport(error: unknown): JsonValue {
  const message = messageOf(error);
  const code =
    error instanceof CudaIpcError ? error.code : error instanceof Error ? error.name : "Error";
  const report = { code: code.slice(0, CODE_LENGTH_MAX), message };
  // Halving is enough: one character takes one to six bytes in JSON.
  while (encoder.encode(JSON.stringify(report)).byteLength > limits.serviceReportBytesMax) {
    report.message = `${report.message.slice(0, Math.floor(report.message.length / 2))}...`;
  }
  return report;
}

/** The report in one sentence, whatever the worker sent. */
export function failureText(report: unknown): string {
  if (typeof report !== "object" || report === null)
    return "an error that its worker did not describe";
  const { code, message } = report as { readonly code?: unknown; readonly message?: unknown };
  return `${String(code)}: ${String(message)}`;
}
