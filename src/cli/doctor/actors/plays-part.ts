/** The second process of the doctor's probes: runs its part of a probe, and reports its failure. */
import { CudaIpcError, messageOf } from "../../../base/errors.js";
import { DeviceArray } from "../../../gpu/arrays/device-array.js";
import { IpcArrayHandle } from "../../../gpu/arrays/ipc-array-handle.js";
import { Device } from "../../../gpu/device.js";
import {
  PROBE_BYTES,
  PROBE_TIMEOUT_MS,
  probePattern,
  verifyPattern,
} from "../../../gpu/probes/probe-pattern.js";
import { openShared } from "../../../peer/open-shared.js";
import { share } from "../../../peer/share.js";
import type { ProbePart } from "../probe-peer.js";

const WAIT = { timeoutMs: PROBE_TIMEOUT_MS } as const;

/** Shares memory by its handle, and verifies what the other process wrote there. */
async function legacy(device: Device): Promise<void> {
  using array = DeviceArray.allocate(device, {
    dtype: "uint8",
    shape: [PROBE_BYTES],
    mechanism: "legacy",
  });
  await array.write(probePattern(PROBE_BYTES));
  say(IpcArrayHandle.of(array).toJSON());
  await told();
  verifyPattern(await array.read(), "memory opened by its handle", 100);
}

/** Records an event behind a wait that ends with the first message. Keeps it until the second. */
async function event(device: Device): Promise<void> {
  using timeline = device.createTimeline();
  using stream = device.createStream();
  using event = device.createEvent();
  stream.wait(timeline, 1);
  event.record(stream);
  say(share(event).document);
  await told();
  timeline.signal(1);
  await stream.synchronize(WAIT);
  await told();
}

/** Opens pool memory of the other process, and writes to it. */
async function pool(device: Device): Promise<void> {
  using array = (
    await openShared(await told(), { device, access: "read-write", ...WAIT })
  ).expectDType("uint8");
  verifyPattern(await array.read(), "memory of a pool");
  await array.write(probePattern(PROBE_BYTES, 100));
}

const parts: Readonly<Record<ProbePart, (device: Device) => Promise<void>>> = {
  legacy,
  event,
  pool,
};

function say(message: object): void {
  process.send?.(message);
}

const heard: unknown[] = [];
let wake = () => {};

/** Waits for the next message of the parent process. */
async function told(): Promise<unknown> {
  while (heard.length === 0) {
    await new Promise<void>((resolve) => {
      wake = resolve;
    });
  }
  return heard.shift();
}

process.on("message", (message) => {
  heard.push(message);
  wake();
});
// Ctrl-C reaches all processes of a terminal. The doctor ends this one itself.
process.on("SIGINT", () => {});
process.on("disconnect", () => process.exit(1));

try {
  const [part, name] = process.argv.slice(2);
  using device = Device.open(name);
  await parts[part as ProbePart](device);
} catch (error) {
  const code = error instanceof CudaIpcError ? error.code : "INTERNAL";
  say({ kind: "failed", code, message: messageOf(error) });
  process.exitCode = 1;
}
process.removeAllListeners("disconnect");
process.disconnect();
