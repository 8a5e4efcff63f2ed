/**
 * Lets only those in who know the URL with the token. The first visit changes the token for a
 * cookie, so that the address bar, the history and links have no token.
 *
 * WHY a secret folder as well: browsers send cookies to all ports of a host, so another user's
 * server on this machine could collect them. With a `Path` that it cannot guess, it gets none.
 */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { textAnswer, type WebAnswer, type WebRequest } from "./web-messages.js";

const SECRET_BYTES = 32;
const COOKIE = "cuda_ipc";

export class WebAccess {
  readonly #token: string;
  readonly #cookie = secret();
  readonly #folder = `/${secret()}/`;

  /** @param token of an earlier start, so that its URL stays valid */
  constructor(token: string = secret()) {
    this.#token = token;
  }

  /** Whether it is the token, which programs send without the cookie. */
  admits(bearer: string | undefined): boolean {
    return isSame(bearer ?? "", this.#token);
  }

  /** The path with the token, which gives access to whoever has it. */
  get firstPath(): string {
    return `/?token=${this.#token}`;
  }

  /** The path below the secret folder such as `objects/7`, or the answer to send instead. */
  check({ method, path, query, cookies, isDirect }: WebRequest): string | WebAnswer {
    if (path === "/") return this.#enter(method, query.get("token") ?? "", isDirect);
    // Browsers ask for it on their own, and log any error.
    if (path === "/favicon.ico") return { status: 204 };
    // Every check takes the same time, whatever it finds.
    const inFolder = isSame(path.slice(0, this.#folder.length), this.#folder);
    const hasCookie = isSame(cookies.get(COOKIE) ?? "", this.#cookie);
    if (inFolder && hasCookie) return path.slice(this.#folder.length);
    return textAnswer(401, "Open the URL that `cuda-ipc dashboard` has printed.");
  }

  #enter(method: string, token: string, isDirect: boolean): WebAnswer {
    if (!isSame(token, this.#token) || method === "POST")
      return textAnswer(401, "Open the URL that `cuda-ipc dashboard` has printed.");
    const cookie = `${COOKIE}=${this.#cookie}; Path=${this.#folder}; HttpOnly; SameSite=Strict`;
    // WHY only then: after a link from elsewhere, browsers withhold strict cookies from a redirect.
    if (isDirect) return { status: 303, headers: { "Set-Cookie": cookie, Location: this.#folder } };
    return {
      status: 200,
      type: "text/html; charset=utf-8",
      headers: { "Set-Cookie": cookie, Refresh: `0; url=${this.#folder}` },
      body: "<!doctype html><title>cuda-ipc</title>\n",
    };
  }
}

export function secret(): string {
  return randomBytes(SECRET_BYTES).toString("base64url");
}

/** WHY hashes: they have one length, which `timingSafeEqual` requires. */
function isSame(one: string, other: string): boolean {
  const [a, b] = [one, other].map((text) => createHash("sha256").update(text).digest());
  return a !== undefined && b !== undefined && timingSafeEqual(a, b);
}
