// A forked child: opens the array that its parent sends, negates it in place, answers with an array of its own that holds the
// values as they were, and ends when the parent has opened that.
import { once } from "node:events";
import { Device, DeviceArray, openShared, share } from "../../../../src/index.js";

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
