// Imports the pools behind descriptors 3 and 4 and an allocation of the first. Tries operations
// that must be refused, verifies `i + 100`, writes `-i` everywhere and frees its import. Arguments:
// kind, count, the exported bytes of an allocation of each pool.
import assert from "node:assert/strict";
import type { ErrorCode } from "../../../src/base/error-codes.js";
import { hasCode } from "../../../src/base/errors.js";
import { createCudaDriver } from "../../../src/driver/cuda/cuda-driver.js";
import { createHostDriver } from "../../../src/driver/host/host-driver.js";
import { OwnedFd } from "../../../src/os/owned-fd.js";
import { until } from "../conformance-rig.js";

const [kind, count] = [process.argv[2], Number(process.argv[3])];
const [data, elsewhere] = [4, 5].map((i) =>
  Uint8Array.from(Buffer.from(process.argv[i] ?? "", "base64")),
);
assert.ok(data !== undefined && elsewhere !== undefined);
const driver = kind === "cuda" ? createCudaDriver() : createHostDriver();
const stream = driver.createStream(0);
const [pool, other] = [3, 4].map((fd) => driver.importPool(0, new OwnedFd(fd)));
assert.ok(pool !== undefined && other !== undefined);

function refused(code: ErrorCode, attempt: () => unknown): void {
  assert.throws(attempt, (error) => hasCode(error, code), `${code}: ${attempt}`);
}

refused("INVALID_HANDLE", () => driver.importPoolPointer(pool, elsewhere));
refused("INVALID_HANDLE", () => driver.importPoolPointer(other, data));
refused("INVALID_HANDLE", () => driver.importPoolPointer(pool, data.subarray(0, 63)));
refused("INVALID_HANDLE", () => driver.importPoolPointer(pool, new Uint8Array(65)));
refused("INVALID_HANDLE", () => driver.importPoolPointer(pool, new Uint8Array(64)));
refused("UNSUPPORTED", () => driver.allocateFromPool(pool, 4096, stream));
refused("UNSUPPORTED", () => driver.exportPool(pool));

const { pointer, byteLength } = driver.importPoolPointer(pool, data);
assert.ok(byteLength >= 4 * count);
refused("IN_USE", () => driver.importPoolPointer(pool, data));
refused("IN_USE", () => driver.destroyPool(pool));
refused("UNSUPPORTED", () => driver.exportPoolPointer(pointer));
assert.throws(
  () => driver.fill(stream, pointer, { elementBytes: 1, value: 0 }, byteLength + 1),
  RangeError,
);

const staging = driver.allocateStaging(0, 4 * count);
const integers = new Int32Array(staging.bytes.buffer, staging.bytes.byteOffset, count);
driver.copyToHost(stream, staging.address, pointer, 4 * count);
await until("the data is here", () => driver.isIdle(stream));
assert.equal(
  integers.findIndex((value, i) => value !== i + 100),
  -1,
);
for (let i = 0; i < count; i += 1) integers[i] = -i;
driver.copyToDevice(stream, pointer, staging.address, 4 * count);
await until("the answer is written", () => driver.isIdle(stream));
driver.freeToPool(pointer, stream);
assert.throws(() => driver.freeToPool(pointer, stream), RangeError);
await until("the import is freed", () => driver.isIdle(stream));
for (const it of [pool, other]) driver.destroyPool(it);
driver.destroyStream(stream);
driver.close();
