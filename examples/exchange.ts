/**
 * System S10: ranks swap their arrays in pairs, as MPI programs do. Each rank copies its partner's
 * memory into its own, from device to device. Nothing passes through the host.
 *
 *   npx cuda-ipc demo exchange                  with the package installed
 *   node examples/exchange.ts                   in a clone after `npm install`, with Node 24
 *   mpirun -n 4 npx cuda-ipc demo exchange      the ranks of a launcher; also srun
 *   --elements 1048576 --processes 4; with --device cuda:0 all are on that one
 *
 * The output (the numbers are processes):
 *   4711  starts 4 ranks with 1048576 elements each
 *   4712  rank 0 on cuda:0: copied 4194304 bytes from rank 1: every element verified
 *   4713  rank 1 on cuda:1: copied 4194304 bytes from rank 0: every element verified
 *   4714  rank 2 on cuda:0: copied 4194304 bytes from rank 3: every element verified
 *   4715  rank 3 on cuda:1: copied 4194304 bytes from rank 2: every element verified
 *   4711  all 4 are done
 */
import { DeviceArray } from "cuda-ipc";
import { Group, openShared, share } from "cuda-ipc/peer";
import { LIMIT, openDevice, say, verify } from "./program.ts";
import { type RankOptions, runRanks } from "./ranks.ts";

await runRanks(
  import.meta.url,
  { elements: 2 ** 20, processes: 4 },
  {
    refuses: (size) => (size % 2 === 0 ? undefined : `even: ${size} ranks do not make pairs`),
    rank: exchange,
  },
);

async function exchange(options: RankOptions): Promise<void> {
  const { elements, rank, size, group: place } = options;
  const partner = rank ^ 1;
  using device = openDevice(options, rank);
  using mine = DeviceArray.allocate(device, { dtype: "float32", shape: [elements] });
  await mine.iota(rank, 0.5);
  using shared = share(mine, { access: "read" });
  using group = await Group.join({ ...place, rank, size, ...LIMIT });
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
