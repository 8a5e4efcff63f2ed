/**
 * System S5: a child doubles its parent's array in place, without copying an element. The parent
 * sends the array's document with `process.send`.
 *
 *   npx cuda-ipc demo fork   with the package installed
 *   node examples/fork.ts    in a clone after `npm install`, with Node 24 or newer
 *   --elements 1024 --device cuda:0
 *
 * The output (the numbers are processes):
 *   4711  created float32[1024] on cuda:0: 100, 101, 102, ...
 *   4712  opened it and doubled every element in place
 *   4711  sees 200, 202, 204, ...: every element verified
 */
import { DeviceArray } from "cuda-ipc";
import { openShared, type SharedDocument, share } from "cuda-ipc/peer";
import { Child, heard, tellParent } from "./child.ts";
import { LIMIT, type Options, openDevice, run, say, verify } from "./program.ts";

await run({ elements: 1024 }, (options) =>
  options.role === "child" ? child(options) : parent(options),
);

async function parent(options: Options): Promise<void> {
  using device = openDevice(options);
  using array = DeviceArray.allocate(device, { dtype: "float32", shape: [options.elements] });
  await array.iota(100, 1);
  say(`created float32[${options.elements}] on ${device.name}: ${await firstThree(array)}`);
  using shared = share(array);
  using other = new Child(import.meta.url, "child", options);
  other.tell(shared.document);
  await other.hear();
  await other.finished();
  verify("the array after the child", await array.read(), (i) =>
    Math.fround(2 * Math.fround(100 + i)),
  );
  say(`sees ${await firstThree(array)}: every element verified`);
}

async function child(options: Options): Promise<void> {
  using device = openDevice(options);
  using array = await openShared(await heard<SharedDocument>(), {
    device,
    access: "read-write",
    ...LIMIT,
  });
  // A kernel on a GPU, a loop on the host device. The results are the same.
  await array.affine(2, 0);
  say("opened it and doubled every element in place");
  tellParent("done");
}

async function firstThree(array: DeviceArray): Promise<string> {
  const values = await array.slice({ stop: 3 }).read();
  return `${[...values].join(", ")}, ...`;
}
