// Replaces an object step by step, or again and again, until it is killed.
import { connect } from "../../../../src/client/connect.js";
import { argument, say, told } from "../../../support/actor-side.js";

const [socket, last] = [0, 1].map(argument) as [string, string];
const LENGTH = 100_000;
const pinned = { lifetime: "pinned", replace: true } as const;
await using hub = await connect({ socket, start: false, device: "host" });
if (last === "put") {
  for (let value = 1; ; value = (value % 255) + 1) {
    (await hub.put("x", new Uint8Array(LENGTH).fill(value), pinned)).close();
    say({ value });
  }
}
using array = await hub.create("x", { dtype: "uint8", shape: [LENGTH], ...pinned });
if (last !== "create") await array.write(new Uint8Array(LENGTH).fill(1));
if (last === "publish") await array.publish();
say({ object: array.object });
await told();
