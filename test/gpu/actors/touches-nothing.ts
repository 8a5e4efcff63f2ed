/**
 * Launches a kernel that writes to an unmapped address, and prints what its stream and the next
 * call throw.
 */
import { Module } from "../../../src/doors/kernels.js";
import { Device } from "../../../src/index.js";
import { kernelImage } from "../../conformance/kernel-image.js";
import { say } from "../../support/actor-side.js";

interface Failure {
  readonly code: string;
  readonly message: string;
}

const device = Device.open("cuda:0");
const stream = device.createStream();
const kernel = Module.load(device, kernelImage).kernel("shape");
kernel.launch({ grid: 1, block: 1, args: [0x10n], stream });
const first = await stream.synchronize({ timeoutMs: 30_000 }).then(() => undefined, asFailure);
let second: Failure | undefined;
try {
  device.createStream();
} catch (error) {
  second = asFailure(error);
}
say([first, second]);
// Closing would also fail, and would show nothing new.
process.exit(0);

function asFailure(error: unknown): Failure {
  const { code, message } = error as Failure;
  return { code, message };
}
