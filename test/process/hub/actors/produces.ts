// Creates an array of float32 `i + 100`, publishes it on request, reports it, and holds it until it
// is told to end.
import { connect } from "../../../../src/client/connect.js";
import type { Lifetime } from "../../../../src/wire/messages.js";
import { argument, say, told } from "../../../support/actor-side.js";

const [socket, name, lifetime, stage, elements] = [0, 1, 2, 3, 4].map(argument) as [
  string,
  string,
  string,
  string,
  string,
];
await using hub = await connect({ socket, start: false, device: "host" });
using array = await hub.create(name, {
  dtype: "float32",
  shape: [Number(elements)],
  lifetime: lifetime as Lifetime,
});
await array.write(Float32Array.from({ length: Number(elements) }, (_, i) => i + 100));
if (stage === "publish") await array.publish();
say({ object: array.object });
await told();
