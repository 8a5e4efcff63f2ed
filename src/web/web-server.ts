/**
 * A small HTTP server for one handler. Everything that a client can make it keep has a limit:
 * connections, the time for headers and bodies, the time for an answer, and buffered bytes.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { CudaIpcError } from "../base/errors.js";
import { defaults, limits } from "../base/limits.js";
import { fromNodeError } from "../os/system-error.js";
import { type HostRules, refusalOf } from "./host-rules.js";
import { parseRequest, readBody } from "./read-request.js";
import { sendAnswer, sendStream } from "./send-answer.js";
import { type WebAddress, webAddressText } from "./web-address.js";
import { textAnswer, type WebHandler, type WebRequest } from "./web-messages.js";

export interface WebServerOptions {
  readonly address: WebAddress;
  readonly handler: WebHandler;
  /** `any` if the handler tells nothing that another web site must not read. */
  readonly hosts?: HostRules | "any";
  /** Closes the server. */
  readonly signal?: AbortSignal;
  /** Called with what a handler throws, unless its client hung up. The client gets status 500. */
  readonly onError?: (error: unknown) => void;
  /** Others than the project's limits are for tests. */
  readonly limits?: Partial<WebLimits>;
}

export interface WebLimits {
  readonly connectionsMax: number;
  readonly streamsMax: number;
  /** For all headers, and then for the body. */
  readonly requestMs: number;
  readonly answerMs: number;
  /** How long a connection may take nothing, or stay without a request. */
  readonly silenceMs: number;
}

const LIMITS: WebLimits = {
  connectionsMax: limits.webConnectionsMax,
  streamsMax: limits.webStreamsMax,
  requestMs: defaults.webRequestMs,
  answerMs: defaults.webAnswerMs,
  silenceMs: defaults.webSilenceMs,
};

export class WebServer {
  readonly #server: Server;
  readonly #options: WebServerOptions;
  readonly #limits: WebLimits;
  readonly #end = new AbortController();
  /** Oldest first. True while a handler works for it. */
  readonly #connections = new Map<Socket, boolean>();
  /** Connections with a request that is not answered yet. */
  readonly #asking = new WeakSet<Socket>();
  #streams = 0;

  private constructor(options: WebServerOptions) {
    this.#options = options;
    this.#limits = { ...LIMITS, ...options.limits };
    const { requestMs, silenceMs } = this.#limits;
    this.#server = createServer({
      maxHeaderSize: limits.webHeaderBytesMax,
      headersTimeout: requestMs,
      requestTimeout: 2 * requestMs,
      keepAliveTimeout: silenceMs,
      connectionsCheckingInterval: Math.min(1000, requestMs),
      noDelay: true,
    });
    this.#server.maxHeadersCount = limits.webHeadersMax;
    // WHY not of the socket: Node takes that limit away with the second request of a connection.
    this.#server.setTimeout(silenceMs, (socket) => {
      // A handler has a limit of its own.
      if (this.#connections.get(socket) !== true) socket.destroy();
    });
    this.#server.on("connection", (socket) => this.#admit(socket));
    this.#server.on("request", (request, response) => void this.#serve(request, response));
  }

  /** Resolves once it listens. @throws SYSTEM_ERROR, PERMISSION_DENIED, ABORTED */
  static async listen(options: WebServerOptions): Promise<WebServer> {
    const server = new WebServer(options);
    await server.#listen();
    return server;
  }

  /** Where it listens, with the real port. */
  get address(): WebAddress {
    const { port } = this.#server.address() as AddressInfo;
    return { host: this.#options.address.host, port };
  }

  /** Ends all connections. Idempotent. */
  async close(): Promise<void> {
    this.#end.abort();
    this.#options.signal?.removeEventListener("abort", this.#onAbort);
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    for (const socket of this.#connections.keys()) socket.destroy();
    await closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  readonly #onAbort = () => void this.close();

  #listen(): Promise<void> {
    const { address, signal } = this.#options;
    const attempt = `listen on ${webAddressText(address)}`;
    if (signal?.aborted) throw new CudaIpcError("ABORTED", `Cannot ${attempt}: aborted`);
    signal?.addEventListener("abort", this.#onAbort, { once: true });
    return new Promise((resolve, reject) => {
      this.#server.once("error", (error) => {
        signal?.removeEventListener("abort", this.#onAbort);
        reject(fromNodeError(attempt, error));
      });
      this.#server.listen({ ...address, exclusive: true }, resolve);
    });
  }

  /** If there are too many, ends the oldest connection that no handler works for. */
  #admit(socket: Socket): void {
    this.#connections.set(socket, false);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => this.#connections.delete(socket));
    if (this.#connections.size <= this.#limits.connectionsMax) return;
    const idle = [...this.#connections].find(([, isServed]) => !isServed)?.[0] ?? socket;
    this.#connections.delete(idle);
    idle.destroy();
  }

  async #serve(message: IncomingMessage, response: ServerResponse): Promise<void> {
    const { socket } = message;
    // WHY: one packet can bring a thousand requests, and the server would keep all their answers.
    if (this.#asking.has(socket)) return void socket.destroy();
    this.#asking.add(socket);
    const gone = new AbortController();
    response.once("close", () => {
      gone.abort();
      this.#asking.delete(socket);
      if (this.#connections.has(socket)) this.#connections.set(socket, false);
    });
    try {
      await this.#answer(message, response, AbortSignal.any([gone.signal, this.#end.signal]));
    } catch (error) {
      if (!gone.signal.aborted && !this.#end.signal.aborted) this.#options.onError?.(error);
      if (response.headersSent) socket.destroy();
      else sendAnswer(response, textAnswer(500, "The request failed."), true);
    }
  }

  async #answer(
    message: IncomingMessage,
    response: ServerResponse,
    signal: AbortSignal,
  ): Promise<void> {
    const { hosts = { names: [] } } = this.#options;
    const withBody = message.method !== "HEAD";
    const refuse = (status: number, why: string) => {
      // WHY not kept: the rest of a body would be read as the next request.
      const headers = { Connection: "close" };
      sendAnswer(response, { ...textAnswer(status, why), headers }, withBody);
    };
    const refusal =
      hosts === "any" ? undefined : refusalOf(message.method ?? "", message.headers, hosts);
    if (refusal !== undefined) return refuse(403, refusal);
    const parsed = parseRequest(message);
    if ("refusal" in parsed)
      return sendAnswer(
        response,
        { ...parsed.refusal, headers: { ...parsed.refusal.headers, Connection: "close" } },
        withBody,
      );
    const body = await readBody(message);
    if (body === undefined) return refuse(413, "The body is too large.");
    this.#connections.set(message.socket, true);
    await this.#handle({ ...parsed.request, body }, response, signal, withBody);
  }

  async #handle(
    request: Omit<WebRequest, "signal">,
    response: ServerResponse,
    ended: AbortSignal,
    withBody: boolean,
  ): Promise<void> {
    const { answerMs, silenceMs, streamsMax } = this.#limits;
    const late = AbortSignal.timeout(answerMs);
    let answer: Awaited<ReturnType<WebHandler>>;
    try {
      const signal = AbortSignal.any([ended, late]);
      answer = await untilAborted(this.#options.handler({ ...request, signal }), signal);
    } catch (error) {
      if (!late.aborted || ended.aborted) throw error;
      answer = textAnswer(503, "The answer took too long.");
    }
    if ("status" in answer) {
      // From here the limit of silence holds, for a client that does not read.
      this.#connections.set(response.req.socket, false);
      return sendAnswer(response, answer, withBody);
    }
    if (!withBody || this.#streams >= streamsMax)
      return sendAnswer(response, textAnswer(503, "Too many pages are open."), withBody);
    this.#streams += 1;
    try {
      await sendStream(response, answer, ended, silenceMs);
    } finally {
      this.#streams -= 1;
    }
  }
}

/** Waits no longer than the signal allows, even if the handler ignores the signal. */
function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
