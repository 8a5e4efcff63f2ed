/**
 * System S2: an array's handle is JSON, or 64 bytes to and from other programs. Send it any way you
 * like: another process opens it as an array of the same shape, strides and dtype, on the same
 * memory. The exporter keeps the array open while others use it.
 *
 *   npx cuda-ipc demo array-handle   with the package installed
 *   node examples/array-handle.ts    in a clone after `npm install`, with Node 24 or newer
 *   --elements 1024 --device cuda:0
 *
 * The output (the numbers are processes):
 *   4711  opening it in its own process is refused: OWN_HANDLE: ...
 *   4712  opened int32[256,4], strides [4,1] by its handle: verified
 *   4712  opened a slice, int32[128,2], strides [8,1], by its own handle: verified
 *   4712  opened 64 bytes as int32[256,4]: verified; doubled every element
 *   4711  sees every element doubled: verified
 */
import { DeviceArray } from "cuda-ipc";
import { type ArrayHandleDocument, IpcArrayHandle, openIpcHandle } from "cuda-ipc/interop";
import { Child, heard, tellParent } from "./child.ts";
import { type Options, openDevice, orSkip, refused, run, say, verify } from "./program.ts";

interface Sent {
  readonly whole: ArrayHandleDocument;
  readonly part: ArrayHandleDocument;
  readonly raw: readonly number[];
}

const COLUMNS = 4;

await run({ elements: 1024 }, (options) =>
  options.role === "child" ? child(options) : parent(options),
);

async function parent(options: Options): Promise<void> {
  const shape = shapeOf(options);
  using device = openDevice(options);
  using array = DeviceArray.allocate(device, { dtype: "int32", shape, mechanism: "legacy" });
  await array.iota(0, 1);
  const whole = orSkip(() => IpcArrayHandle.of(array)).toJSON();
  const part = IpcArrayHandle.of(array.slice({ step: 2 }, { start: 1, stop: 3 })).toJSON();
  // For other programs: CUDA's own 64 bytes. Send dtype and shape beside them.
  const raw = [...IpcArrayHandle.of(array).bytes];
  await refused("opening it in its own process", "OWN_HANDLE", () =>
    IpcArrayHandle.from(whole).open(device),
  );

  using other = new Child(import.meta.url, "child", options);
  other.tell({ whole, part, raw } satisfies Sent);
  await other.hear();
  await other.finished();
  verify("the array after the child", await array.read(), (i) => 2 * i);
  say("sees every element doubled: verified");
}

async function child(options: Options): Promise<void> {
  const { whole, part, raw } = await heard<Sent>();
  using device = openDevice(options);
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
    const shape = shapeOf(options);
    using array = openIpcHandle(device, raw, { dtype: "int32", shape, access: "read-write" });
    verify("64 bytes", await array.read(), (i) => i);
    await array.affine(2, 0);
    say(`opened 64 bytes as int32[${shape}]: verified; doubled every element`);
  }
  tellParent("done");
}

function shapeOf({ elements }: Options): [number, number] {
  return [Math.ceil(elements / COLUMNS), COLUMNS];
}

function inWords({ dtype, shape, strides }: DeviceArray): string {
  return `${dtype}[${shape}], strides [${strides}]`;
}
