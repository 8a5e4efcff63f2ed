// A forked child. It opens its parent's array, negates it in place, and replies with an array that
// holds the old values. It ends when the parent has opened that array.
import { once } from "node:events";
import { openShared, share } from "../../../../src/doors/peer.js";
import { Device, DeviceArray } from "../../../../src/index.js";

const [document] = await once(process, "message");
using array = (await openShared(document, { access: "read-write" })).expectDType("float32");
const values = await array.read();
await array.write(values.map((value) => value * -1));
using device = Device.open("host");
using answer = DeviceArray.allocate(device, { dtype: "float32", shape: array.shape });
await answer.write(values);
using shared = share(answer);
process.send?.(shared);
await once(process, "message");
process.disconnect();
