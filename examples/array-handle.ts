/**
 * System S2: an array's handle is JSON, or 64 bytes to and from other programs. Send it any way you
 * like: another process opens it as an array of the same shape, strides and dtype, on the same
 * memory. The exporter keeps the array open while others use it.
 *
 *   npx cuda-ipc demo array-handle                  with the package installed
 *   node examples/array-handle.ts                   in a clone after `npm install`, with Node 24
 *   npx cuda-ipc demo array-handle producer PATH    in one terminal, and consumer PATH in another
 *   --elements 1024 --device cuda:0
 *
 * The output (the numbers are processes):
 *   4712  waits for the producer at ...
 *   4711  opening it in its own process is refused: OWN_HANDLE: ...
 *   4711  waits for the consumer at ...
 *   4712  opened int32[256,4], strides [4,1] by its handle: verified
 *   4712  opened a slice, int32[128,2], strides [8,1], by its own handle: verified
 *   4712  opened 64 bytes as int32[256,4]: verified; doubled every element
 *   4711  sees every element doubled: verified
 */
import { DeviceArray } from "cuda-ipc";
import { type ArrayHandleDocument, IpcArrayHandle, openIpcHandle } from "cuda-ipc/interop";
import { meet, runPair } from "./pair.ts";
import { LIMIT, type Options, openDevice, orSkip, refused, say, verify } from "./program.ts";

interface Sent {
  readonly whole: ArrayHandleDocument;
  readonly part: ArrayHandleDocument;
  /** For programs without such JSON: CUDA's own 64 bytes. Send dtype and shape beside them. */
  readonly raw: readonly number[];
  readonly shape: readonly number[];
}

const COLUMNS = 4;

await runPair(import.meta.url, { elements: 1024 }, { producer, consumer });

async function producer(options: Options): Promise<void> {
  const shape = [Math.ceil(options.elements / COLUMNS), COLUMNS];
  using device = openDevice(options);
  using array = DeviceArray.allocate(device, { dtype: "int32", shape, mechanism: "legacy" });
  await array.iota(0, 1);
  const whole = orSkip(() => IpcArrayHandle.of(array)).toJSON();
  const part = IpcArrayHandle.of(array.slice({ step: 2 }, { start: 1, stop: 3 })).toJSON();
  const raw = [...IpcArrayHandle.of(array).bytes];
  await refused("opening it in its own process", "OWN_HANDLE", () =>
    IpcArrayHandle.from(whole).open(device),
  );

  using group = await meet(options);
  await group.allGather({ whole, part, raw, shape } satisfies Sent, LIMIT);
  // At this barrier the consumer has closed what it opened.
  await group.barrier(LIMIT);
  verify("the array after the consumer", await array.read(), (i) => 2 * i);
  say("sees every element doubled: verified");
  await group.barrier(LIMIT);
}

async function consumer(options: Options): Promise<void> {
  using device = openDevice(options);
  using group = await meet(options);
  const [sent] = await group.allGather(null, LIMIT);
  const { whole, part, raw, shape } = sent as Sent;
  {
    using array = IpcArrayHandle.from(whole).open(device).expectDType("int32");
    verify("the whole", await array.read(), (i) => i);
    say(`opened ${inWords(array)} by its handle: verified`);
  }
  {
    using array = IpcArrayHandle.from(part).open(device).expectDType("int32");
    verify("the slice", await array.read(), (i) => 2 * COLUMNS * Math.floor(i / 2) + 1 + (i % 2));
    say(`opened a slice, ${inWords(array)}, by its own handle: verified`);
  }
  {
    using array = openIpcHandle(device, raw, { dtype: "int32", shape, access: "read-write" });
    verify("64 bytes", await array.read(), (i) => i);
    await array.affine(2, 0);
    say(`opened 64 bytes as int32[${shape}]: verified; doubled every element`);
  }
  await group.barrier(LIMIT);
  // The producer has verified it.
  await group.barrier(LIMIT);
}

function inWords({ dtype, shape, strides }: DeviceArray): string {
  return `${dtype}[${shape}], strides [${strides}]`;
}
