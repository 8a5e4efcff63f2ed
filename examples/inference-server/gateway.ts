/**
 * The gateway: takes images over HTTP, decodes them, lets a worker classify them, answers in JSON.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { CudaIpcError } from "cuda-ipc";
import type { ServiceClient } from "cuda-ipc/service";
import sharp from "sharp";
import { bestLabel, labels, SIDE } from "./model.ts";

const BODY_BYTES_MAX = 8 * 1024 * 1024;
const PIXELS_MAX = 64 * 1024 * 1024;
const TIMEOUT_MS = 20_000;

class Refused extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export interface Gateway {
  readonly server: Server;
  readonly url: string;
}

export async function startGateway(client: ServiceClient, port: number): Promise<Gateway> {
  const server = createServer((request, response) => {
    void answer(client, request, response);
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
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
    if (request.url !== "/classify")
      throw new Refused(404, "there is POST /classify, and nothing else");
    if (request.method !== "POST") throw new Refused(405, "send an image with POST");
    const image = await decoded(await bodyOf(request));
    const options = { timeoutMs: TIMEOUT_MS, signal: gone.signal };
    using reply = await client.request((slot) => slot.array.write(image), options);
    const scores = [...(await reply.array.read())].map(Number);
    const named = Object.fromEntries(labels.map((label, i) => [label, scores[i]]));
    send(response, 200, { label: bestLabel(scores), scores: named, ...(reply.json as object) });
  } catch (error) {
    const [status, message] = told(error);
    send(response, status, { error: message });
  }
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  let byteLength = 0;
  for await (const part of request) {
    byteLength += part.length;
    if (byteLength <= BODY_BYTES_MAX) parts.push(part);
    // WHY it reads on for a while: a client that still sends would not see the answer.
    else if (byteLength > 8 * BODY_BYTES_MAX) break;
  }
  if (byteLength > BODY_BYTES_MAX)
    throw new Refused(413, `an image has at most ${BODY_BYTES_MAX} bytes here`);
  return Buffer.concat(parts);
}

/** Decodes an image of any format and size to the pixels that the model takes. */
async function decoded(body: Buffer): Promise<Uint8Array> {
  const pixels = await sharp(body, { limitInputPixels: PIXELS_MAX })
    .toColourspace("srgb")
    .removeAlpha()
    .resize(SIDE, SIDE, { fit: "fill" })
    .raw()
    .toBuffer()
    .catch((cause: Error) => {
      throw new Refused(400, `this is no image that can be decoded: ${cause.message}`);
    });
  const plane = SIDE * SIDE;
  if (pixels.length !== 3 * plane) throw new Refused(400, "this image has no red, green and blue");
  const image = new Uint8Array(3 * plane);
  for (let i = 0; i < plane; i += 1) {
    for (let channel = 0; channel < 3; channel += 1)
      image[channel * plane + i] = pixels[3 * i + channel] ?? 0;
  }
  return image;
}

function told(error: unknown): readonly [number, string] {
  if (error instanceof Refused) return [error.status, error.message];
  if (error instanceof CudaIpcError && error.retryable)
    return [503, `${error.code}: ${error.message}`];
  return [500, error instanceof Error ? error.message : String(error)];
}

function send(response: ServerResponse, status: number, body: object): void {
  if (response.destroyed) return;
  response
    .writeHead(status, { "content-type": "application/json" })
    .end(`${JSON.stringify(body)}\n`);
}
