// Memory of another process by its 64-byte handle, opened once more while it is open, and closed again: nothing is mapped.
// The same loop: bench/c/legacy-reopen.c
import { DeviceArray } from "../../src/gpu/device-array.js";
import { IpcArrayHandle } from "../../src/gpu/ipc-array-handle.js";
import { isFirst, openDevice, Peer, timeCalls } from "./actor.js";

const BLOCK_BYTES = 2 * 1024 * 1024;

const device = openDevice();
const other = new Peer();

function opener(): void {
  const handle = IpcArrayHandle.from(other.receiveJson());
  const kept = handle.open(device);
  timeCalls("legacy-reopen", () => handle.open(device).close());
  kept.close();
  other.meet();
}

function exporter(): void {
  const array = DeviceArray.allocate(device, { dtype: "uint8", shape: [BLOCK_BYTES], mechanism: "legacy" });
  other.sendJson(IpcArrayHandle.of(array));
  other.meet();
  array.close();
}

if (isFirst) opener();
else exporter();
device.close();
