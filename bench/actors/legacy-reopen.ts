// Opens and closes memory of another process by its 64-byte handle while it is already open, so
// that nothing is mapped. The same loop in C: bench/c/legacy-reopen.c
import { DeviceArray } from "../../src/gpu/arrays/device-array.js";
import { IpcArrayHandle } from "../../src/gpu/arrays/ipc-array-handle.js";
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
  const array = DeviceArray.allocate(device, {
    dtype: "uint8",
    shape: [BLOCK_BYTES],
    mechanism: "legacy",
  });
  other.sendJson(IpcArrayHandle.of(array));
  other.meet();
  array.close();
}

if (isFirst) opener();
else exporter();
device.close();
