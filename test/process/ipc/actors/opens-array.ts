// Opens an array by its handle, prints its values, and doubles them. Arguments: device, handle.

import { IpcArrayHandle } from "../../../../src/doors/interop.js";
import { Device } from "../../../../src/index.js";
import { argument, say } from "../../../support/actor-side.js";

const device = Device.open(argument(0));
{
  using array = IpcArrayHandle.from(JSON.parse(argument(1)))
    .open(device, { access: "read-write" })
    .expectDType("int32");
  const values = await array.read();
  await array.write(values.map((value) => value * 2));
  say([...values]);
}
device.close();
