// Exports legacy memory by its 64 bytes, or opens such bytes, and prints the result. Then waits for
// a line. Arguments: device, and a handle in base64 to open.
import { CudaIpcError } from "../../../src/base/errors.js";
import { DeviceArray } from "../../../src/gpu/arrays/device-array.js";
import { IpcArrayHandle } from "../../../src/gpu/arrays/ipc-array-handle.js";
import { openIpcHandle } from "../../../src/gpu/arrays/open-ipc-handle.js";
import { Device } from "../../../src/gpu/device.js";
import { argument, say, told } from "../../support/actor-side.js";

using device = Device.open(argument(0));
const handle = process.argv[3];
if (handle === undefined) {
  using array = DeviceArray.allocate(device, { dtype: "int32", shape: [4], mechanism: "legacy" });
  await array.write([5, 6, 7, 8]);
  say({ pid: process.pid, handle: IpcArrayHandle.of(array).toJSON().handle });
  await told();
} else {
  try {
    using array = openIpcHandle(device, handle, { dtype: "int32", shape: [4] });
    say({ pid: process.pid, values: [...(await array.read())] });
  } catch (error) {
    say({ pid: process.pid, code: error instanceof CudaIpcError ? error.code : String(error) });
  }
}
