/** What a client is told of an error that a handler threw: its words and its code, within a limit. */
import { CudaIpcError, messageOf } from "../base/errors.js";
import { limits } from "../base/limits.js";
import type { JsonValue } from "../channel/message-meta.js";

const encoder = new TextEncoder();
const CODE_LENGTH_MAX = 64;

export function failureReport(error: unknown): JsonValue {
  const message = messageOf(error);
  const code = error instanceof CudaIpcError ? error.code : error instanceof Error ? error.name : "Error";
  const report = { code: code.slice(0, CODE_LENGTH_MAX), message };
  // WHY by halves: a letter takes one to six bytes as JSON.
  while (encoder.encode(JSON.stringify(report)).byteLength > limits.serviceReportBytesMax) {
    report.message = `${report.message.slice(0, Math.floor(report.message.length / 2))}...`;
  }
  return report;
}

/** In one sentence, whatever the worker sent. */
export function failureText(report: unknown): string {
  if (typeof report !== "object" || report === null) return "its worker did not say why";
  const { code, message } = report as { readonly code?: unknown; readonly message?: unknown };
  return `${String(code)}: ${String(message)}`;
}
