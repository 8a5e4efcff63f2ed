// Exports memory from an address within it, and an event recorded behind a wait; prints both
// handles. When it is told to, it ends the wait and prints the memory's first byte. Argument: kind.
import { createCudaDriver } from "../../../src/driver/cuda/cuda-driver.js";
import { createHostDriver } from "../../../src/driver/host/host-driver.js";
import { LEGACY_GRANULARITY_BYTES } from "../../../src/driver/legacy-calls.js";
import { argument, say, told } from "../../support/actor-side.js";
import { ConformanceRig } from "../conformance-rig.js";

export interface Exported {
  readonly memory: string;
  readonly blockByteLength: number;
  readonly byteOffset: number;
  readonly event: string;
}

const driver = argument(0) === "cuda" ? createCudaDriver() : createHostDriver();
const rig = new ConformanceRig(driver);
const pointer = rig.legacy(2 * LEGACY_GRANULARITY_BYTES);
const stream = rig.stream();
driver.fill(stream, pointer, { elementBytes: 4, value: 0xabcd }, LEGACY_GRANULARITY_BYTES / 2);
await rig.done(stream);

const words = rig.words();
const event = rig.event();
rig.wait(stream, words, 0, 1n);
driver.recordEvent(event, stream);

const { handle, blockByteLength, byteOffset } = driver.exportLegacy(0, pointer + 4096n);
const said: Exported = {
  memory: Buffer.from(handle).toString("base64"),
  blockByteLength,
  byteOffset,
  event: Buffer.from(driver.exportEvent(event)).toString("base64"),
};
say(said);

await told();
Atomics.store(words.cpu, 0, 1n);
await rig.done(stream);
say((await rig.read(pointer, 1))[0]);
await told();
await rig.end();
driver.close();
