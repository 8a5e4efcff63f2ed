// Enqueues work and prints at exit whether it was done. `wait` never ends; `copy` takes several
// steps.
import { createHostDriver } from "../../../../../src/driver/host/host-driver.js";

const MiB = 1024 * 1024;
const driver = createHostDriver();
const staging = driver.allocateStaging(0, 32 * MiB);
const stream = driver.createStream(0);
if (process.argv[2] === "wait") driver.waitWord(stream, staging.address, 1n);
driver.fill(stream, staging.address, { elementBytes: 1, value: 1 }, 32 * MiB);
process.on("exit", () => {
  console.log(staging.bytes.at(-1) === 1);
});
