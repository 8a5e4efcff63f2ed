import assert from "node:assert/strict";
import { once } from "node:events";
import { get, type IncomingMessage, request } from "node:http";
import { connect, type Socket } from "node:net";
import { describe, it } from "node:test";
import type { WebHandler } from "../../../src/web/web-messages.js";
import { textAnswer } from "../../../src/web/web-messages.js";
import { WebServer, type WebServerOptions } from "../../../src/web/web-server.js";
import { soon, until } from "../../support/until.js";

const address = { host: "127.0.0.1", port: 0 };
const hello: WebHandler = async ({ method, path, query, body }) =>
  textAnswer(200, `${method} ${path} ${query} ${body.byteLength}`);

function listen(options: Partial<WebServerOptions> = {}): Promise<WebServer> {
  return WebServer.listen({ address, handler: hello, ...options });
}

interface Reply {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
}

async function ask(
  server: WebServer,
  path: string,
  { method = "GET", headers = {}, body = "" } = {},
): Promise<Reply> {
  const sent = request({ ...server.address, path, method, headers, agent: false });
  const replied = once(sent, "response");
  sent.on("error", () => {});
  sent.end(body);
  const [message] = (await soon("the reply", replied)) as [IncomingMessage];
  let text = "";
  for await (const piece of message.setEncoding("utf8")) text += piece;
  return { status: message.statusCode ?? 0, headers: message.headers, text };
}

/** A connection that sends exactly this. `ended` has what came back. */
function raw(server: WebServer, text: string): { socket: Socket; ended: Promise<string> } {
  const socket = connect(server.address);
  socket.setEncoding("utf8").on("error", () => {});
  let read = "";
  socket.on("data", (piece) => {
    read += piece;
  });
  socket.write(text);
  return { socket, ended: once(socket, "close").then(() => read) };
}

/** Repeats an attempt with more time, until its request arrives before a busy machine is late. */
async function untilServed(attempt: (silenceMs: number) => Promise<boolean>): Promise<void> {
  let silenceMs = 50;
  await until("its request is in time", () => {
    silenceMs *= 2;
    return attempt(silenceMs);
  });
}

describe("WebServer", () => {
  it("passes a request on, and adds headers that keep other sites out", async () => {
    await using server = await listen();
    const { status, headers, text } = await ask(server, "/a/../b%20c?x=1");
    assert.deepEqual([status, text], [200, "GET /b c x=1 0\n"]);
    assert.match(
      String(headers["content-security-policy"]),
      /^default-src 'none'; script-src 'self'/,
    );
    assert.doesNotMatch(String(headers["content-security-policy"]), /unsafe|\*|http/);
    assert.equal(headers["x-content-type-options"], "nosniff");
    assert.equal(headers["referrer-policy"], "no-referrer");
    assert.equal(headers["cache-control"], "no-store");
  });

  it("tells whether a person opened the URL, or a page led to it", async () => {
    const handler: WebHandler = async ({ isDirect }) => textAnswer(200, String(isDirect));
    await using server = await listen({ handler });
    for (const [site, wanted] of [
      ["none", "true"],
      ["same-origin", "false"],
      ["cross-site", "false"],
      ["", "false"],
    ] as const) {
      const headers = site === "" ? {} : { "sec-fetch-site": site };
      assert.equal((await ask(server, "/", { headers })).text, `${wanted}\n`, site);
    }
  });

  it("answers HEAD without a body, and refuses other methods", async () => {
    await using server = await listen();
    const { status, headers, text } = await ask(server, "/", { method: "HEAD" });
    assert.deepEqual([status, text], [200, ""]);
    assert.equal(headers["content-length"], String("HEAD /  0\n".length));
    for (const method of ["PUT", "DELETE", "OPTIONS", "TRACE"]) {
      const origin = `http://127.0.0.1:${server.address.port}`;
      assert.equal((await ask(server, "/", { method, headers: { origin } })).status, 405);
    }
  });

  it("refuses other hosts and origins, unless its handler has nothing to hide", async () => {
    const headers = { host: "evil.example" };
    {
      await using server = await listen();
      assert.equal((await ask(server, "/", { headers })).status, 403);
      const posted = { method: "POST", body: "{}", headers: { origin: "http://evil.example" } };
      assert.equal((await ask(server, "/", posted)).status, 403);
    }
    await using server = await listen({ hosts: "any" });
    assert.equal((await ask(server, "/", { headers })).status, 200);
  });

  it("refuses invalid URLs, and never passes on dots", async () => {
    await using server = await listen();
    const host = "Host: localhost\r\nConnection: close\r\n\r\n";
    for (const [url, status] of [
      ["//evil.example/", 400],
      ["http://evil.example/", 400],
      ["*", 400],
      ["/%ff", 400],
      [`/${"x".repeat(3000)}`, 414],
    ] as const) {
      const reply = await soon("the end", raw(server, `GET ${url} HTTP/1.1\r\n${host}`).ended);
      assert.match(reply, new RegExp(`^HTTP/1.1 ${status} `), url);
    }
    const dots = await raw(server, `GET /a/../../%2e%2e/etc/passwd HTTP/1.1\r\n${host}`).ended;
    assert.match(dots, /GET \/etc\/passwd /);
  });

  it("refuses large headers and bodies", async () => {
    await using server = await listen();
    assert.equal((await ask(server, "/", { headers: { x: "y".repeat(20_000) } })).status, 431);
    const headers = { origin: `http://127.0.0.1:${server.address.port}` };
    const post = (length: number) =>
      ask(server, "/", { method: "POST", headers, body: "x".repeat(length) });
    assert.equal((await post(4096)).text, "POST /  4096\n");
    assert.equal((await post(4097)).status, 413);
  });

  it("ends connections that send nothing, half a header, or half a body", async () => {
    await using server = await listen({ limits: { requestMs: 50, silenceMs: 100 } });
    const head = "Host: localhost\r\nOrigin: http://localhost\r\nContent-Length: 5\r\n\r\n";
    for (const text of ["", "GET / HT", "GET / HTTP/1.1\r\nHost: l", `POST / HTTP/1.1\r\n${head}x`])
      await soon(`the end after "${text}"`, raw(server, text).ended);
  });

  it("ends a client that closed its side only", async () => {
    await using server = await listen({ limits: { requestMs: 50, silenceMs: 100 } });
    const { socket, ended } = raw(server, "GET / HTTP/1.1\r\nHo");
    socket.end();
    await soon("the end", ended);
  });

  it("ends a connection that asks again before it has its answer", async () => {
    let asked = 0;
    const handler: WebHandler = async () => {
      asked += 1;
      return textAnswer(200, "x");
    };
    await using server = await listen({ handler });
    const { ended } = raw(server, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000));
    await soon("the end", ended);
    assert.equal(asked, 1);
  });

  it("ends a connection that does not read its second answer", async () => {
    let signal: AbortSignal | undefined;
    const handler: WebHandler = async (request) => {
      signal = request.signal;
      return textAnswer(200, request.path === "/" ? "first" : "x".repeat(1 << 25));
    };
    const rest = "HTTP/1.1\r\nHost: localhost\r\n\r\n";
    await untilServed(async (silenceMs) => {
      await using server = await listen({ handler, limits: { silenceMs, answerMs: 600_000 } });
      const { socket, ended } = raw(server, `GET / ${rest}`);
      const early = ended.then(() => "the end");
      if ((await Promise.race([once(socket, "data"), early])) === "the end") return false;
      const first = signal;
      socket.pause().write(`GET /second ${rest}`);
      const lateMs = performance.now() + 10 * silenceMs;
      const isLate = () => signal === first && performance.now() > lateMs;
      const hasEnded = () => signal !== first && signal?.aborted === true;
      await until("the connection has ended", () => hasEnded() || isLate());
      socket.destroy();
      return hasEnded();
    });
  });

  it("ends the oldest idle connection for a new one, and none that is served", async () => {
    const isServed = deferred<void>();
    const handler: WebHandler = async ({ path }) => {
      if (path === "/slow") await isServed.promise;
      return textAnswer(200, path);
    };
    await using server = await listen({ handler, limits: { connectionsMax: 3 } });
    const slow = ask(server, "/slow");
    const idle = raw(server, "");
    await once(idle.socket, "connect");
    const next = [raw(server, ""), raw(server, "")];
    await soon("the idle one ends", idle.ended);
    assert.equal((await ask(server, "/new")).text, "/new\n");
    isServed.resolve();
    assert.equal((await slow).text, "/slow\n");
    for (const { socket } of next) socket.destroy();
  });

  it("aborts a handler whose answer takes too long, or whose client hangs up", async () => {
    let aborted = 0;
    const handler: WebHandler = ({ signal }) =>
      new Promise(() => signal.addEventListener("abort", () => (aborted += 1)));
    await using server = await listen({ handler, limits: { answerMs: 50 } });
    assert.equal((await ask(server, "/")).status, 503);
    assert.equal(aborted, 1);
    await using patient = await listen({ handler });
    const { socket } = raw(patient, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await once(socket, "connect");
    socket.destroy();
    await until("the handler knows", () => aborted === 2);
  });

  it("answers 500 if its handler throws, and reports the error", async () => {
    const errors: unknown[] = [];
    const failure = new RangeError("secret");
    const handler: WebHandler = () => Promise.reject(failure);
    await using server = await listen({ handler, onError: (error) => errors.push(error) });
    const { status, text } = await ask(server, "/");
    assert.deepEqual([status, text, errors], [500, "The request failed.\n", [failure]]);
  });

  it("streams until the client hangs up", async () => {
    let hasEnded = false;
    const handler: WebHandler = async () => ({
      type: "text/event-stream",
      run: async (write, signal) => {
        for (let i = 0; !signal.aborted; i++) await write(`data: ${i}\n\n`).catch(() => {});
        hasEnded = true;
      },
    });
    await using server = await listen({ handler });
    const sent = get({ ...server.address, agent: false });
    const [message] = (await once(sent, "response")) as [IncomingMessage];
    const [first] = await once(message.setEncoding("utf8"), "data");
    assert.match(first, /^data: 0\n\n/);
    message.destroy();
    await until("the stream has ended", () => hasEnded);
  });

  it("ends a stream whose client does not read, and buffers one text at most", async () => {
    let written = 0;
    const errors: unknown[] = [];
    const text = "x".repeat(1 << 20);
    const handler: WebHandler = async () => ({
      type: "text/plain",
      run: async (write) => {
        for (;;) {
          await write(text);
          written += 1;
        }
      },
    });
    const onError = (error: unknown) => errors.push(error);
    await untilServed(async (silenceMs) => {
      await using server = await listen({ handler, onError, limits: { silenceMs } });
      const { socket, ended } = raw(server, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
      let isEarly = false;
      void ended.then(() => {
        isEarly = true;
      });
      socket.pause();
      await until("it is given up", () => errors.length === 1 || isEarly);
      socket.destroy();
      return errors.length === 1;
    });
    assert.match(String(errors[0]), /it takes nothing/);
    assert.ok(written < 64, `${written} MiB are in the kernel's buffers`);
  });

  it("refuses more streams than it allows", async () => {
    const handler: WebHandler = async () => ({
      type: "text/plain",
      run: (write, signal) =>
        write("begun\n").then(() => once(signal, "abort").then(() => undefined)),
    });
    await using server = await listen({ handler, limits: { streamsMax: 1 } });
    const sent = get({ ...server.address, agent: false }).on("error", () => {});
    await once(sent, "response");
    assert.equal((await ask(server, "/")).status, 503);
    sent.destroy();
    const isFree = async () => {
      const { socket, ended } = raw(server, "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
      socket.end();
      return (await ended).startsWith("HTTP/1.1 503");
    };
    await until("HEAD of a stream is refused, too", isFree);
  });

  it("says why it cannot listen", async () => {
    await using server = await listen();
    await assert.rejects(listen({ address: server.address }), {
      code: "SYSTEM_ERROR",
      message: /^Cannot listen on 127\.0\.0\.1:\d+: listen failed with EADDRINUSE$/,
    });
  });

  it("ends all connections when it closes, or when its signal is aborted", async () => {
    const controller = new AbortController();
    const server = await listen({ signal: controller.signal });
    const idle = raw(server, "");
    await once(idle.socket, "connect");
    controller.abort();
    await soon("the connection ends", idle.ended);
    await server.close();
    await server.close();
    await assert.rejects(listen({ signal: controller.signal }), { code: "ABORTED" });
  });
});

function deferred<T>() {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
