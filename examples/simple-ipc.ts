/**
 * System S8: N processes, on several GPUs if there are several. Each process gives its array to all
 * others and works on its neighbour's array, with barriers between the phases. Events order the
 * GPUs: between the first work and the last check no CPU waits for a GPU.
 *
 *   npx cuda-ipc demo simple-ipc                  with the package installed
 *   node examples/simple-ipc.ts                   in a clone after `npm install`, with Node 24
 *   mpirun -n 3 npx cuda-ipc demo simple-ipc      the ranks of a launcher; also srun
 *   --elements 65536 --processes 3; with --device cuda:0 all are on that one
 *
 * The output (the numbers are processes):
 *   4711  starts 3 ranks with 65536 elements each
 *   4712  rank 0 on cuda:0: changed rank 1's array, sees rank 2's work: every element verified
 *   4713  rank 1 on cuda:1: changed rank 2's array, sees rank 0's work: every element verified
 *   4714  rank 2 on cuda:0: changed rank 0's array, sees rank 1's work: every element verified
 *   4711  all 3 are done
 */
import { DeviceArray } from "cuda-ipc";
import { Event, type EventDescriptor, type Stream } from "cuda-ipc/interop";
import { Group, openShared, type SharedDocument, share } from "cuda-ipc/peer";
import { LIMIT, openDevice, say, verify } from "./program.ts";
import { type RankOptions, runRanks } from "./ranks.ts";

/** The data that each process gives to all others. */
interface Given {
  readonly array: SharedDocument;
  readonly filled: EventDescriptor;
}

await runRanks(
  import.meta.url,
  { elements: 65_536, processes: 3 },
  {
    refuses: (size) => (size < 2 ? "at least 2: each works on its neighbour's array" : undefined),
    rank: workOnNeighbour,
  },
);

async function workOnNeighbour(options: RankOptions): Promise<void> {
  const { elements, rank, size, group: place } = options;
  const [next, previous] = [(rank + 1) % size, (rank + size - 1) % size];
  using device = openDevice(options, rank);
  device.prepareOperations();
  using mine = DeviceArray.allocate(device, { dtype: "int32", shape: [elements] });
  using shared = share(mine);
  using stream = device.createStream();
  using group = await Group.join({ ...place, rank, size, ...LIMIT });

  await mine.iota(rank * 1000, 1, { stream });
  using filled = recorded(stream);
  const given = (await group.allGather(
    { array: shared.document, filled: filled.export() },
    LIMIT,
  )) as Given[];

  using theirs = await openShared(given[next]?.array, { device, access: "read-write", ...LIMIT });
  using theyFilled = Event.import(device, given[next]?.filled);
  stream.wait(theyFilled);
  await theirs.affine(10, rank, { stream });
  using worked = recorded(stream);
  const events = await group.allGather(worked.export(), LIMIT);

  using previousWorked = Event.import(device, events[previous]);
  stream.wait(previousWorked);
  using result = DeviceArray.allocate(device, { dtype: "int32", shape: [elements] });
  await result.copyFrom(mine, { stream });
  await stream.synchronize(LIMIT);
  verify(
    `the array of rank ${rank}`,
    await result.read(),
    (i) => ((rank * 1000 + i) * 10 + previous) | 0,
  );
  const found = `changed rank ${next}'s array, sees rank ${previous}'s work`;
  say(`rank ${rank} on ${device.name}: ${found}: every element verified`);
  // No process closes its array and events while another uses them.
  await group.barrier(LIMIT);
}

function recorded(stream: Stream): Event {
  const event = stream.device.createEvent();
  event.record(stream);
  return event;
}
