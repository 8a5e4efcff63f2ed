/**
 * System S10: ranks swap their arrays in pairs, as MPI programs do. Each rank copies its partner's
 * memory into its own, from device to device. Nothing passes through the host.
 *
 *   npx cuda-ipc demo exchange   with the package installed
 *   node examples/exchange.ts    in a clone after `npm install`, with Node 24 or newer
 *   --elements 1048576 --processes 4; with --device cuda:0 all are on that one
 *
 * The output (the numbers are processes):
 *   4711  starts 4 ranks with float32[1048576] each
 *   4712  rank 0 on cuda:0: copied 4194304 bytes from rank 1: every element verified
 *   4713  rank 1 on cuda:1: copied 4194304 bytes from rank 0: every element verified
 *   4714  rank 2 on cuda:0: copied 4194304 bytes from rank 3: every element verified
 *   4715  rank 3 on cuda:1: copied 4194304 bytes from rank 2: every element verified
 *   4711  all 4 are done
 */
import { join } from "node:path";
import { DeviceArray } from "cuda-ipc";
import { Group, openShared, share } from "cuda-ipc/peer";
import { Child } from "./child.ts";
import {
  LIMIT,
  type Options,
  openDevice,
  run,
  say,
  temporaryFolder,
  verify,
  WrongOption,
} from "./program.ts";

await run({ elements: 2 ** 20, processes: 4 }, (options) =>
  options.role === "rank" ? member(options) : parent(options),
);

async function parent(options: Options): Promise<void> {
  const { elements, processes } = options;
  if (processes % 2 !== 0)
    throw new WrongOption(`--processes must be even: ${processes} ranks do not make pairs`);
  const path = join(temporaryFolder(), "group.sock");
  say(`starts ${processes} ranks with float32[${elements}] each`);
  const children = Array.from({ length: processes }, (_, rank) => {
    return new Child(import.meta.url, "rank", options, { args: [path, String(rank)] });
  });
  await Promise.all(children.map((child) => child.finished()));
  say(`all ${processes} are done`);
}

async function member(options: Options): Promise<void> {
  const { elements, processes: size } = options;
  const [path = "", text = ""] = options.args;
  const rank = Number(text);
  const partner = rank ^ 1;
  using device = openDevice(options, rank);
  using mine = DeviceArray.allocate(device, { dtype: "float32", shape: [elements] });
  await mine.iota(rank, 0.5);
  using shared = share(mine, { access: "read" });
  using group = await Group.join({ path, rank, size, ...LIMIT });
  const documents = await group.allGather(shared.document, LIMIT);

  using theirs = await openShared(documents[partner], { device, ...LIMIT });
  using received = DeviceArray.allocate(device, { dtype: "float32", shape: [elements] });
  await received.copyFrom(theirs.expectDType("float32"));
  // The array may be overwritten only after all ranks have copied.
  await group.barrier(LIMIT);
  await mine.copyFrom(received);
  verify(`the array of rank ${rank}`, await mine.read(), (i) =>
    Math.fround(partner + Math.fround(i * 0.5)),
  );
  const copied = `copied ${received.byteLength} bytes from rank ${partner}`;
  say(`rank ${rank} on ${device.name}: ${copied}: every element verified`);
  await group.barrier(LIMIT);
}
