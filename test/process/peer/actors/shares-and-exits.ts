// Shares an array and prints how many files the runtime folder has. Ends because it has nothing
// left to do.
import { readdirSync } from "node:fs";
import { dirname } from "node:path";
import { share } from "../../../../src/doors/peer.js";
import { Device, DeviceArray } from "../../../../src/index.js";
import { say } from "../../../support/actor-side.js";

const device = Device.open("host");
const shared = share(DeviceArray.allocate(device, { dtype: "int32", shape: [1] }));
say(readdirSync(dirname(shared.document.fds.socket)).length);
