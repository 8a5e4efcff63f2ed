/**
 * Opens an array on cuda:0 by name and prints the first element that is not `i * 3 + seed`, or -1.
 * Arguments: socket, name, seed.
 */
import { connect } from "../../../src/index.js";
import { argument, say } from "../../support/actor-side.js";

await using hub = await connect({ socket: argument(0), start: false, device: "cuda:0" });
using array = (await hub.open(argument(1), { timeoutMs: 30_000 })).expectDType("int32");
const values = await array.read();
const seed = Number(argument(2));
say({ wrong: values.findIndex((value, i) => value !== i * 3 + seed), count: values.length });
