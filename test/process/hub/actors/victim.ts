// Shares, opens, checks and releases arrays, one after the other. Prints how long each took and
// what failed.
import { connect } from "../../../../src/client/connect.js";
import { argument, say, told } from "../../../support/actor-side.js";

const [socket, count, own] = [argument(0), Number(argument(1)), argument(2)];
const hub = await connect({ socket, start: false, device: "host", program: "victim" });
say("here");
await told();
const milliseconds: number[] = [];
const errors: string[] = [];
for (let index = 0; index < count; index += 1) {
  const startMs = performance.now();
  try {
    await share(`${own}-${index}`, index);
  } catch (error) {
    errors.push(String(error));
  }
  milliseconds.push(performance.now() - startMs);
}
say({ milliseconds, errors });
await hub.close();

async function share(name: string, value: number): Promise<void> {
  using array = await hub.create(name, { dtype: "int32", shape: [4] });
  await array.write(Int32Array.of(value, value + 1, value + 2, value + 3));
  await array.publish();
  using opened = await hub.open(name);
  const found = await opened.read();
  if (found[3] !== value + 3) throw new Error(`found ${found}`);
}
