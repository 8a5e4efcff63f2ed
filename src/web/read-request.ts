/** Checks a request and reads its body, before any handler sees it. */
import type { IncomingMessage } from "node:http";
import { limits } from "../base/limits.js";
import { textAnswer, type WebAnswer, type WebRequest } from "./web-messages.js";

const METHODS = ["GET", "HEAD", "POST"] as const;

export type Parsed =
  | { readonly request: Omit<WebRequest, "body" | "signal"> }
  | { readonly refusal: WebAnswer };

export function parseRequest({ method = "", url = "", headers }: IncomingMessage): Parsed {
  const known = METHODS.find((one) => one === method);
  if (known === undefined) {
    const headers = { Allow: METHODS.join(", ") };
    return { refusal: { ...textAnswer(405, "This method is not served."), headers } };
  }
  if (url.length > limits.webUrlLengthMax)
    return { refusal: textAnswer(414, "The URL is too long.") };
  try {
    // WHY the check: `//name/` would be another host, and `http://` is for proxies.
    if (!/^\/(?!\/)/.test(url)) throw new URIError(url);
    const { pathname, searchParams } = new URL(url, "http://server");
    const path = decodeURIComponent(pathname);
    const cookies = cookiesIn(headers.cookie);
    const bearer = /^Bearer +(\S+)$/i.exec(headers.authorization ?? "")?.[1];
    const isDirect = headers["sec-fetch-site"] === "none";
    return { request: { method: known, path, query: searchParams, cookies, bearer, isDirect } };
  } catch {
    return { refusal: textAnswer(400, "The URL is invalid.") };
  }
}

/** The first of each name. */
function cookiesIn(header = ""): Map<string, string> {
  const cookies = new Map<string, string>();
  for (const part of header.split(";")) {
    const at = part.indexOf("=");
    const name = part.slice(0, at).trim();
    if (at > 0 && !cookies.has(name)) cookies.set(name, part.slice(at + 1).trim());
  }
  return cookies;
}

/** Undefined if it is larger than allowed. Node's own limit of time ends slow ones. */
export async function readBody(request: IncomingMessage): Promise<Uint8Array | undefined> {
  const pieces: Buffer[] = [];
  let length = 0;
  for await (const piece of request) {
    length += piece.length;
    if (length > limits.webBodyBytesMax) return undefined;
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}
