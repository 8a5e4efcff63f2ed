// Imports the memory behind descriptor 3, waits on the words behind descriptor 4 until it is
// written, verifies it, writes `-i` everywhere and reports it in word 1. Arguments: kind,
// byteLength, count.
import assert from "node:assert/strict";
import { createCudaDriver } from "../../../src/driver/cuda/cuda-driver.js";
import { createHostDriver } from "../../../src/driver/host/host-driver.js";
import { Mapping } from "../../../src/os/mapping.js";
import { OwnedFd } from "../../../src/os/owned-fd.js";
import { until } from "../conformance-rig.js";

const [kind, byteLength, count] = [
  process.argv[2],
  Number(process.argv[3]),
  Number(process.argv[4]),
];
const driver = kind === "cuda" ? createCudaDriver() : createHostDriver();
const memory = driver.importMemory(0, new OwnedFd(3), byteLength);
const pointer = driver.mapMemory(memory, "read-write");
const mapping = Mapping.shared(new OwnedFd(4), 4096, "read-write");
const words = driver.registerHostMemory(0, mapping.address, 4096, "read-write");
const staging = driver.allocateStaging(0, 4 * count);
const integers = new Int32Array(staging.bytes.buffer, staging.bytes.byteOffset, count);

const stream = driver.createStream(0);
driver.waitWord(stream, words, 1n);
driver.copyToHost(stream, staging.address, pointer, 4 * count);
await until("the data is here", () => driver.isIdle(stream));
assert.equal(
  integers.findIndex((value, i) => value !== ((i * 2 + 1337) ^ 0xdeadbeef)),
  -1,
);

for (let i = 0; i < count; i += 1) integers[i] = -i;
driver.copyToDevice(stream, pointer, staging.address, 4 * count);
driver.writeWord(stream, words + 8n, 1n);
await until("the answer is written", () => driver.isIdle(stream));
