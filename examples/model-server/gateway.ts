/** The gateway: takes an input over HTTP as 784 float32, lets a worker answer, returns JSON. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { CudaIpcError } from "cuda-ipc";
import type { ServiceClient } from "cuda-ipc/service";
import { INPUTS } from "./model.ts";

const TIMEOUT_MS = 30_000;
const BODY_BYTES = 4 * INPUTS;

export interface Gateway {
  readonly server: Server;
  readonly url: string;
}

export async function startGateway(client: ServiceClient): Promise<Gateway> {
  const server = createServer((request, response) => {
    void answer(client, request, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/predict` };
}

async function answer(
  client: ServiceClient,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  // If the HTTP client disconnects, the worker gets the abort, too.
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  try {
    const body = await bodyOf(request);
    if (body === undefined) {
      return send(response, 400, { error: `send ${BODY_BYTES} bytes: ${INPUTS} float32` });
    }
    const options = { timeoutMs: TIMEOUT_MS, signal: gone.signal };
    using reply = await client.request((slot) => slot.array.write(body), options);
    const scores = [...(await reply.array.read())].map(Number);
    send(response, 200, { scores, ...(reply.json as object) });
  } catch (error) {
    const status = error instanceof CudaIpcError && error.retryable ? 503 : 500;
    send(response, status, { error: error instanceof Error ? error.message : String(error) });
  }
}

/** Undefined if it has another size. */
async function bodyOf(request: IncomingMessage): Promise<Float32Array | undefined> {
  const parts: Buffer[] = [];
  let byteLength = 0;
  for await (const part of request) {
    byteLength += part.length;
    if (byteLength <= BODY_BYTES) parts.push(part);
    // WHY it reads on for a while: a client that still sends would not see the answer.
    else if (byteLength > 1000 * BODY_BYTES) break;
  }
  if (byteLength !== BODY_BYTES) return undefined;
  return new Float32Array(Uint8Array.from(Buffer.concat(parts)).buffer);
}

function send(response: ServerResponse, status: number, body: object): void {
  if (response.destroyed) return;
  response
    .writeHead(status, { "content-type": "application/json" })
    .end(`${JSON.stringify(body)}\n`);
}
