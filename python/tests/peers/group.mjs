// A member of a group: `group.mjs SOCKET PATH RANK SIZE`. Does what it hears.
import { Group } from "../../../build/src/bundled/doors/peer.js";
import { args, heard, hub, LIMIT, say } from "./common.mjs";

const [path, rank, size] = args;
const group = await Group.join({ path, rank: Number(rank), size: Number(size), ...LIMIT });
say("joined");
for (let told = await heard(); told !== undefined; told = await heard()) {
  try {
    if (told === "leave") break;
    if (told === "barrier") await group.barrier(LIMIT);
    const all = told.gather === undefined ? [] : await group.allGather(told.gather, LIMIT);
    say({ rank: group.rank, all });
  } catch (error) {
    say({ code: error.code, message: error.message });
  }
}
group.close();
await hub.close();
