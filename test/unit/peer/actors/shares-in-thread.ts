// A worker thread that opens the array of its document, sums it, and shares its doubled values
// until told to end.
import { parentPort, workerData } from "node:worker_threads";
import { openShared, share } from "../../../../src/doors/peer.js";
import { Device, DeviceArray } from "../../../../src/index.js";

using opened = (await openShared(workerData)).expectDType("int32");
const values = await opened.read();
using device = Device.open("host");
using doubled = DeviceArray.allocate(device, { dtype: "int32", shape: [values.length] });
await doubled.write(values.map((value) => value * 2));
using shared = share(doubled);
const done = new Promise((resolve) => parentPort?.once("message", resolve));
parentPort?.postMessage({
  sum: values.reduce((sum, value) => sum + value, 0),
  document: shared.document,
});
await done;
