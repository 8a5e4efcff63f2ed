// Exports memory of the legacy mechanism by its 64 bytes, or opens such bytes, and says what came of it; then waits to go on.
// Arguments: device, and the handle in base64 if it is to open one.
import { CudaIpcError } from "../../../src/base/errors.js";
import { Device } from "../../../src/gpu/device.js";
import { DeviceArray } from "../../../src/gpu/device-array.js";
import { IpcArrayHandle } from "../../../src/gpu/ipc-array-handle.js";
import { openIpcHandle } from "../../../src/gpu/open-ipc-handle.js";
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
