/**
 * Loads a large safetensors file into shared memory. Compares with `cat` to tmpfs, or one pinned
 * copy to the GPU.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readSafetensorsHeader } from "../src/files/safetensors-header.js";
import { Device } from "../src/gpu/device.js";
import { DeviceBuffer } from "../src/gpu/memory/device-buffer.js";
import { readFileInto } from "../src/gpu/transfer/file-transfer.js";
import type { Row } from "./measure.js";
import { writeModel } from "./model-file.js";

const MiB = 1024 * 1024;
const RUNS = 10;

export async function putThroughput(deviceName: string, byteLength: number): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-bench-"));
  const path = join(folder, "model.safetensors");
  using device = Device.open(deviceName);
  try {
    await writeModel(path, byteLength, { dtype: "float32", count: 16 });
    const before = resetPeak();
    const firstMs = await putOnce(device, path);
    let putMs = Number.POSITIVE_INFINITY;
    for (let run = 0; run < RUNS; run += 1) putMs = Math.min(putMs, await putOnce(device, path));
    const ownBytes = residentBytes("VmHWM") - before;
    const gib = byteLength / 1024 / MiB;
    const memory: Row = {
      what: "memory of the process at its peak, more than before",
      value: ownBytes / MiB,
      unit: "MiB",
      goal: "under 200 MiB",
      met: ownBytes < 200 * MiB,
    };
    const first: Row = {
      what: `file of ${gib} GiB into ${device.name}, the first in a process`,
      value: firstMs,
      unit: "ms",
    };
    const put: Row = {
      what: `file of ${gib} GiB into ${device.name}, best of ${RUNS} more`,
      value: putMs,
      unit: "ms",
    };
    const compared = device.cpuVisible
      ? againstCat(put, path)
      : await againstPinned(put, device, byteLength);
    return [first, ...compared, memory];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Milliseconds until the data is there. Freeing the memory is not included, like in cat. */
async function putOnce(device: Device, path: string): Promise<number> {
  const start = performance.now();
  const file = await open(path);
  try {
    const header = await readSafetensorsHeader(file, path);
    using buffer = DeviceBuffer.allocate(device, header.dataByteLength);
    const section = {
      file,
      fileName: path,
      byteOffset: header.dataByteOffset,
      byteLength: header.dataByteLength,
    };
    await readFileInto(buffer, 0, section);
    return performance.now() - start;
  } finally {
    await file.close();
  }
}

function againstCat(put: Row, path: string): Row[] {
  const target = `/dev/shm/cuda-ipc-bench-${process.pid}`;
  let catMs = Number.POSITIVE_INFINITY;
  for (let run = 0; run < RUNS; run += 1) {
    const start = performance.now();
    const { status } = spawnSync("sh", ["-c", 'cat "$0" > "$1"', path, target]);
    catMs = Math.min(catMs, performance.now() - start);
    rmSync(target, { force: true });
    if (status !== 0) throw new Error(`cat to ${target} ended with ${status}`);
  }
  const ratio = put.value / catMs;
  const goal = "within 1.3 times cat";
  return [
    { what: "cat FILE > /dev/shm/x", value: catMs, unit: "ms" },
    { ...put, comparedWith: "cat", ratio, goal, met: ratio <= 1.3 },
  ];
}

/**
 * One copy from pinned memory, which is the limit of the link to the GPU: into new memory, like a
 * file's, and for comparison into memory that was written before.
 */
async function againstPinned(put: Row, device: Device, byteLength: number): Promise<Row[]> {
  const { driver, ordinal } = device;
  const pinnedBytes = Math.min(byteLength, 1024 * MiB);
  const staging = driver.allocateStaging(ordinal, pinnedBytes);
  const stream = driver.createStream(ordinal);
  staging.bytes.fill(1);
  const copyOnce = async (buffer: DeviceBuffer): Promise<number> => {
    const start = performance.now();
    driver.copyToDevice(stream, buffer.pointer, staging.address, pinnedBytes);
    while (!driver.isIdle(stream));
    return performance.now() - start;
  };
  let freshMs = Number.POSITIVE_INFINITY;
  let writtenMs = Number.POSITIVE_INFINITY;
  for (let run = 0; run < RUNS; run += 1) {
    using buffer = DeviceBuffer.allocate(device, pinnedBytes);
    freshMs = Math.min(freshMs, await copyOnce(buffer));
    writtenMs = Math.min(writtenMs, await copyOnce(buffer));
  }
  driver.destroyStream(stream);
  driver.freeStaging(staging);
  const share = (freshMs * byteLength) / pinnedBytes / put.value;
  const goal = "at least 0.80 of it";
  return [
    {
      what: `one pinned copy of ${pinnedBytes / MiB} MiB into new memory`,
      value: pinnedBytes / freshMs / 1e6,
      unit: "GB/s",
    },
    {
      what: "the same into memory written before",
      value: pinnedBytes / writtenMs / 1e6,
      unit: "GB/s",
    },
    { what: "the file", value: byteLength / put.value / 1e6, unit: "GB/s" },
    { ...put, comparedWith: "the pinned copy's rate", ratio: share, goal, met: share >= 0.8 },
  ];
}

/**
 * Starts a new peak, and returns what is resident now. Memory of the host device counts only where
 * this process maps it.
 */
function resetPeak(): number {
  writeFileSync("/proc/self/clear_refs", "5");
  return residentBytes("VmRSS");
}

function residentBytes(field: "VmRSS" | "VmHWM"): number {
  const kilobytes = new RegExp(`${field}:\\s+(\\d+) kB`).exec(
    readFileSync("/proc/self/status", "utf8"),
  )?.[1];
  return Number(kilobytes ?? Number.NaN) * 1024;
}
