// Offers an array of int32 `(i * 2 + 1337) ^ 0xdeadbeef` until enough consumers have acknowledged
// it, or for ever. Arguments: socket, count.
import { offer } from "../../../../src/doors/peer.js";
import { Device, DeviceArray } from "../../../../src/index.js";
import { argument, say } from "../../../support/actor-side.js";

using device = Device.open("host");
using array = DeviceArray.allocate(device, { dtype: "int32", shape: [262_144] });
await array.write(Int32Array.from({ length: 262_144 }, (_, i) => (i * 2 + 1337) ^ 0xdeadbeef));
await using offered = offer(argument(0), array);
say("offered");
await offered.acknowledged(Number(argument(1)), { timeoutMs: Number.POSITIVE_INFINITY });
say({ acknowledged: offered.acknowledgedCount });
