// Shares an array, says how many files there are in the runtime folder, and ends by having nothing more to do.
import { readdirSync } from "node:fs";
import { dirname } from "node:path";
import { Device, DeviceArray, share } from "../../../../src/index.js";
import { say } from "../../../support/actor-side.js";

const device = Device.open("host");
const shared = share(DeviceArray.allocate(device, { dtype: "int32", shape: [1] }));
say(readdirSync(dirname(shared.document.fds.socket)).length);
