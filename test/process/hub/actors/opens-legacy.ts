// Opens an array and reports its values. At each "read" it reports them again, or the code of the
// error, and whether the memory is gone. At "close" it closes the array.
import { connect } from "../../../../src/client/connect.js";
import { argument, say, told } from "../../../support/actor-side.js";

const [socket, name] = [0, 1].map(argument) as [string, string];
await using hub = await connect({ socket, start: false, device: "host" });
const array = await hub.open(name);
const look = async () => {
  const values = await array.read().then(
    (found) => [...(found as Int32Array)],
    (error) => error.code,
  );
  return { values, gone: array.memoryGone };
};
say(await look());
while ((await told()) === "read") say(await look());
array.close();
say("closed");
await told();
