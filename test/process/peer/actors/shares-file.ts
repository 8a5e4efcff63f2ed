// Shares an array of int32 `i + first` by a handle file, reports that, and keeps it until it is
// told to end. Arguments: file, first.
import { share, writeHandleFile } from "../../../../src/doors/peer.js";
import { Device, DeviceArray } from "../../../../src/index.js";
import { argument, say, told } from "../../../support/actor-side.js";

using device = Device.open("host");
using array = DeviceArray.allocate(device, { dtype: "int32", shape: [1000] });
await array.write(Int32Array.from({ length: 1000 }, (_, i) => i + Number(argument(1))));
using shared = share(array);
await writeHandleFile(argument(0), shared);
say({ socket: shared.document.fds.socket });
await told();
