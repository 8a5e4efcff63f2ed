/** Writes answers and streams to a connection, with the headers that browsers enforce. */
import type { ServerResponse } from "node:http";
import { CudaIpcError } from "../base/errors.js";
import type { WebAnswer, WebStream } from "./web-messages.js";

/** A page runs only its own files, nobody may frame it, and it sends no address elsewhere. */
const SAFE_HEADERS = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "Cache-Control": "no-store",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
} as const;

export function sendAnswer(
  response: ServerResponse,
  { status, type, headers, body = "" }: WebAnswer,
  withBody: boolean,
): void {
  const bytes = typeof body === "string" ? Buffer.from(body) : body;
  response.writeHead(status, {
    ...SAFE_HEADERS,
    ...(type === undefined ? {} : { "Content-Type": type }),
    ...headers,
    "Content-Length": bytes.byteLength,
  });
  response.end(withBody ? bytes : undefined);
}

/** Resolves when the stream has ended. @throws what `run` throws */
export async function sendStream(
  response: ServerResponse,
  { type, run }: WebStream,
  signal: AbortSignal,
  silenceMs: number,
): Promise<void> {
  response.writeHead(200, { ...SAFE_HEADERS, "Content-Type": type });
  response.flushHeaders();
  await run((text) => written(response, text, signal, silenceMs), signal);
  response.end();
}

function written(
  response: ServerResponse,
  text: string,
  signal: AbortSignal,
  silenceMs: number,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const attempt = "Cannot send to a browser";
    const finish = (error?: CudaIpcError) => {
      clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
      if (error === undefined) resolve();
      else reject(error);
    };
    const onAbort = () => finish(new CudaIpcError("ABORTED", `${attempt}: it hung up`));
    const late = () => finish(new CudaIpcError("TIMEOUT", `${attempt}: it takes nothing`));
    const timer = setTimeout(late, silenceMs);
    if (signal.aborted) return onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    // WHY later: a stream that goes on after an error would keep the event loop from turning.
    response.write(text, (error) => (error ? void setImmediate(onAbort) : finish()));
  });
}
