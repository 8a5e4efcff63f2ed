/**
 * Owns a timeline on cuda:0 and answers another one. In each step its stream waits for the other
 * side, adds its share to an array of both, and signals. Its CPU does not wait in between.
 * Arguments: socket, steps; with `stop` as the third it signals half of the steps and then waits to
 * be killed.
 */
import { connect } from "../../../src/index.js";

const [socket = "", steps = "0", end = "finish"] = process.argv.slice(2);
const hub = await connect({ socket, start: false, device: "cuda:0" });
const mine = await hub.createTimeline("peer-steps");
const theirs = await hub.openTimeline("steps", { timeoutMs: 30_000 });
const ring = (await hub.open("ring", { access: "read-write", timeoutMs: 30_000 })).expectDType(
  "int32",
);
const stream = hub.device().createStream();
theirs.prepare(hub.device());
const last = end === "stop" ? Number(steps) / 2 : Number(steps);
for (let step = 1; step <= last; step += 1) {
  stream.wait(theirs, step);
  hub
    .device()
    .driver.fill(
      stream.handle,
      ring.buffer.pointer + BigInt(8 * step),
      { elementBytes: 4, value: 2 * step },
      1,
    );
  stream.signal(mine, step);
}
process.send?.("enqueued");
if (end === "stop") {
  await stream.synchronize({ timeoutMs: 30_000 });
  process.send?.("stopped");
  setInterval(() => {}, 1000);
} else {
  await stream.synchronize({ timeoutMs: 30_000 });
  process.send?.({ value: String(mine.value) });
  await new Promise((resolve) => process.once("message", resolve));
  stream.close();
  await hub.close();
  process.disconnect();
}
