// Shares an array and a slice of it by handle. On the first line, frees the array and shares
// another. On the second, prints the first row. On the third, frees that array too, closes the
// device, reports that and waits. Argument: device.
import { IpcArrayHandle } from "../../../../src/doors/interop.js";
import { Device, DeviceArray } from "../../../../src/index.js";
import { argument, say, told } from "../../../support/actor-side.js";

const device = Device.open(argument(0));

async function share(start: number): Promise<DeviceArray<"int32">> {
  const array = DeviceArray.allocate(device, {
    dtype: "int32",
    shape: [4, 6],
    mechanism: "legacy",
  });
  await array.write(Int32Array.from({ length: 24 }, (_, i) => start + i));
  const part = array.slice({ start: 1, stop: 3 }, { start: 5, stop: -7, step: -2 });
  say({ whole: IpcArrayHandle.of(array), part: IpcArrayHandle.of(part) });
  return array;
}

const first = await share(0);
await told();
first.close();
const second = await share(100);
await told();
say([...(await second.slice(0).read())]);
await told();
second.close();
device.close();
say("closed");
await told();
