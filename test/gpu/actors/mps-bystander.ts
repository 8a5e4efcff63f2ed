/**
 * Works on cuda:0 in small steps until it is told to end, or fails. Prints which one happened, and
 * whether all results were right. Argument: socket.
 */
import { connect } from "../../../src/index.js";
import { argument, say, told } from "../../support/actor-side.js";

await using hub = await connect({ socket: argument(0), start: false, device: "cuda:0" });
using array = await hub.create(`bystander-${process.pid}`, { dtype: "uint32", shape: [1024] });
await array.fill(0);
say("works");
let isTold = false;
void told().then(() => {
  isTold = true;
});
let steps = 0;
let code = "none";
try {
  for (; !isTold; steps += 1) {
    await array.affine(1, 1);
    await new Promise((resolve) => setImmediate(resolve));
  }
  const values = await array.read();
  if (values.some((value) => value !== steps)) code = "WRONG";
} catch (error) {
  ({ code = "none" } = error as { code?: string });
}
say({ code, hasWorked: steps > 0 });
