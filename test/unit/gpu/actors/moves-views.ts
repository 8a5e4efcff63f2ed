// Tries each way to move the ArrayBuffer of a view, and reports what became of the memory. Run with
// --expose-gc.
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MessageChannel } from "node:worker_threads";
import { gunzipSync, gzipSync } from "node:zlib";
import { Device } from "../../../../src/gpu/device.js";
import { DeviceBuffer } from "../../../../src/gpu/memory/device-buffer.js";
import { mappedBytes } from "../../../../src/os/mapping.js";
import { say } from "../../../support/actor-side.js";
import { until } from "../../../support/until.js";

type Transfers = ArrayBuffer & Record<"transfer" | "transferToFixedLength", () => ArrayBuffer>;

interface ByobSource {
  readonly byobRequest: {
    respond(bytesWritten: number): void;
    respondWithNewView(view: Uint8Array): void;
  } | null;
}

const byobReader = (pull: (controller: ByobSource) => void) =>
  new ReadableStream({ type: "bytes", pull: pull as never }).getReader({ mode: "byob" });

const bufferOf = (view: Uint8Array) => view.buffer as Transfers;

const moves: Record<string, (view: Uint8Array) => unknown> = {
  transfer: (view) => bufferOf(view).transfer?.(),
  transferToFixedLength: (view) => bufferOf(view).transferToFixedLength?.(),
  structuredClone: (view) => structuredClone(view, { transfer: [bufferOf(view)] }),
  postMessage: (view) => {
    const { port1 } = new MessageChannel();
    try {
      port1.postMessage(view, [bufferOf(view)]);
    } finally {
      port1.close();
    }
  },
  enqueue: (view) =>
    new ReadableStream({ type: "bytes", start: (controller) => controller.enqueue(view) })
      .getReader()
      .read(),
  enqueuePart: (view) =>
    new ReadableStream({
      type: "bytes",
      start: (controller) => controller.enqueue(new DataView(view.buffer, 8, 8)),
    })
      .getReader()
      .read(),
  byobRead: (view) => byobReader(({ byobRequest }) => byobRequest?.respond(1)).read(view),
  respondWithNewView: (view) =>
    byobReader(({ byobRequest }) => byobRequest?.respondWithNewView(view)).read(
      new Uint8Array(view.byteLength),
    ),
};

const uses: Record<string, (view: Uint8Array) => unknown> = {
  Blob: async (view) => (await new Blob([view as never]).arrayBuffer()).byteLength,
  Response: async (view) => (await new Response(view as never).arrayBuffer()).byteLength,
  clone: (view) => structuredClone(view).byteLength,
  zlib: (view) => gunzipSync(gzipSync(view)).byteLength,
  file: (view) => {
    const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-views-"));
    const file = openSync(join(folder, "f"), "w");
    writeSync(file, view);
    closeSync(file);
    const { byteLength } = readFileSync(join(folder, "f"));
    rmSync(folder, { recursive: true });
    return byteLength;
  },
  ownStream: async () => {
    const stream = new ReadableStream({
      type: "bytes",
      start: (controller) => controller.enqueue(new Uint8Array(4096)),
    });
    return (await stream.getReader().read()).value?.byteLength;
  },
};

const device = Device.open("host");

async function tryMove(name: string, move: (view: Uint8Array) => unknown): Promise<unknown> {
  const buffer = DeviceBuffer.allocate(device, 4096, { label: name });
  const view = buffer.view();
  view[7] = 42;
  let moved: string;
  try {
    moved = typeof (await move(view));
  } catch (error) {
    moved = (error as Error).name;
  }
  buffer.close();
  globalThis.gc?.();
  return [moved, view.byteLength === 4096 ? view[7] : "detached"];
}

async function tryUse(name: string, use: (view: Uint8Array) => unknown): Promise<unknown> {
  const buffer = DeviceBuffer.allocate(device, 4096, { label: name });
  const result = await use(buffer.view());
  buffer.close();
  return result;
}

const results: Record<string, unknown> = {};
for (const [name, move] of Object.entries(moves)) results[name] = await tryMove(name, move);
say(results);
const used: Record<string, unknown> = {};
for (const [name, use] of Object.entries(uses)) used[name] = await tryUse(name, use);
say(used);
device.close();
await until("all views are collected", () => {
  globalThis.gc?.();
  return mappedBytes() === 0;
});
// A view that is reachable at the end does not disturb it.
const last = DeviceBuffer.allocate(Device.open("host"), 4096, { label: "last" });
Object.assign(globalThis, { last: last.view() });
say({ done: true });
