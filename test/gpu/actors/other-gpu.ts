/**
 * Opens an array of another GPU on cuda:0 of this process (CUDA_VISIBLE_DEVICES), verifies that
 * element i is `i * 3 + seed`, writes `-element` back and prints what it found. Arguments: socket,
 * name, seed.
 */
import { connect, DeviceArray } from "../../../src/index.js";

const [socket = "", name = "", seed = "0"] = process.argv.slice(2);
await using hub = await connect({ socket, start: false, device: "cuda:0" });
using array = (
  await hub.open(name, { access: "read-write", device: "cuda:0", timeoutMs: 30_000 })
).expectDType("int32");
using local = DeviceArray.allocate(hub.device(), { dtype: "int32", shape: array.shape });
await local.copyFrom(array);
const values = await local.read();
const wrong = values.findIndex((value, index) => value !== index * 3 + Number(seed));
await local.write(values.map((value) => -value));
await array.copyFrom(local);
process.send?.({ wrong, placement: array.placement, uuid: hub.device().uuid });
