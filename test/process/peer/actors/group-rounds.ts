// Joins a group and exchanges array documents with all other members. In each round it writes to
// all arrays, waits at a barrier, checks what all wrote, and waits again. Arguments: path, rank,
// size, rounds.
import { Group, openShared, share } from "../../../../src/doors/peer.js";
import { Device, DeviceArray } from "../../../../src/index.js";
import { argument, say } from "../../../support/actor-side.js";

const [rank, size, rounds] = [1, 2, 3].map((index) => Number(argument(index))) as [
  number,
  number,
  number,
];
using group = await Group.join({ path: argument(0), rank, size });
using device = Device.open("host");
using own = DeviceArray.allocate(device, { dtype: "int32", shape: [size] });
using shared = share(own);
const documents = await group.allGather(shared.document);
const opened = await Promise.all(
  documents.map((document) => openShared(document, { access: "read-write" })),
);
const views = opened.map((array) => array.expectDType("int32").view());
let wrong = 0;
for (let round = 1; round <= rounds; round += 1) {
  for (const view of views) view[rank] = round * 1000 + rank;
  await group.barrier();
  for (let other = 0; other < size; other += 1)
    if (own.view()[other] !== round * 1000 + other) wrong += 1;
  const sums = await group.allGather(round + rank);
  for (let other = 0; other < size; other += 1) if (sums[other] !== round + other) wrong += 1;
}
say({ rank, wrong, documents: documents.length });
for (const array of opened) array.close();
await group.barrier();
