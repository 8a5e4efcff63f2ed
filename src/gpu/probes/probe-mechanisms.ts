/**
 * Probes features that not every device has: element operations, host-numa memory, memory of
 * another GPU, and the compiler. UNSUPPORTED and similar codes mean that the feature is missing.
 * Any other error means that it exists and does not work.
 */
import { formatBytes } from "../../base/bytes.js";
import { CudaIpcError } from "../../base/errors.js";
import { DeviceArray } from "../arrays/device-array.js";
import type { Device } from "../device.js";
import { Program } from "../kernels/program.js";
import { DeviceBuffer } from "../memory/device-buffer.js";
import { PROBE_BYTES, PROBE_TIMEOUT_MS, probePattern, verifyPattern } from "./probe-pattern.js";

const ELEMENTS = 65_536;
const WAIT = { timeoutMs: PROBE_TIMEOUT_MS } as const;

/** Runs each of this package's kernels once. On the host device the CPU computes instead. */
export async function probeOperations(device: Device): Promise<string> {
  const options = { dtype: "float32", shape: [ELEMENTS] } as const;
  using one = DeviceArray.allocate(device, options, "probe");
  using other = DeviceArray.allocate(device, options, "probe");
  await one.iota(1, 1, WAIT);
  await other.fill(2, WAIT);
  await other.slice({ start: 1 }).iota(3, 1, WAIT);
  expect("the count of differences", (await one.compare(other, WAIT)).differences, ELEMENTS);
  const within = { ...WAIT, atol: 1 };
  expect("the count of far elements", (await one.compare(other, within)).differences, 0);
  await one.affine(1, 1, WAIT);
  expect("the count of differences", (await one.compare(other, WAIT)).differences, 0);
  expect("the checksum", await one.checksum(WAIT), await other.checksum(WAIT));
  const { min, max, mean } = await one.statistics(WAIT);
  expect("the minimum", min, 2);
  expect("the maximum", max, ELEMENTS + 1);
  expect("the mean", mean, (ELEMENTS + 3) / 2);
  const values = await one.read();
  const wrong = values.findIndex((value, i) => value !== i + 2);
  if (wrong >= 0) expect(`element ${wrong}`, values[wrong], wrong + 2);
  return "fill, iota, affine, compare, checksum and statistics gave the right results (float32)";
}

/** Checks that the GPU and the CPU see each other's writes, also through a second mapping. */
export async function probeHostNuma(device: Device): Promise<string> {
  const place = "host-numa";
  using made = DeviceBuffer.allocate(device, PROBE_BYTES, { place, label: "probe" });
  made.view().set(probePattern(PROBE_BYTES));
  using fd = made.exportFd();
  const { byteLength, allocationByteLength } = made;
  const label = "probe, mapped again";
  using mapped = DeviceBuffer.import(device, fd, {
    label,
    byteLength,
    allocationByteLength,
    access: "read",
    place,
  });
  const received = new Uint8Array(byteLength);
  await mapped.read(0, received);
  verifyPattern(received, "memory that the CPU wrote");
  await made.write(0, probePattern(PROBE_BYTES, 100));
  verifyPattern(made.view(), "memory that the GPU wrote", 100);
  const size = formatBytes(byteLength);
  return `${size} beside the GPU, written by the CPU and by the GPU, mapped again, verified`;
}

/**
 * Copies both ways between two devices, and maps memory of the other device here. The copies also
 * work without peer access.
 */
export async function probePeerAccess(device: Device, other: Device): Promise<string> {
  const options = { dtype: "uint8", shape: [PROBE_BYTES] } as const;
  using here = DeviceArray.allocate(device, options, "probe");
  using there = DeviceArray.allocate(other, options, "probe");
  await there.write(probePattern(PROBE_BYTES));
  await here.copyFrom(there);
  verifyPattern(await here.read(), `a copy from ${other.name}`);
  await there.clear();
  await there.copyFrom(here);
  verifyPattern(await there.read(), `a copy to ${other.name}`);
  if (!device.driver.canAccessPeer(device.ordinal, other.ordinal)) {
    const found = `${device.name} cannot use memory of ${other.name} itself`;
    throw new CudaIpcError(
      "PEER_ACCESS_UNSUPPORTED",
      `${found}; copies between them go by way of the host, verified`,
    );
  }
  using fd = there.buffer.exportFd();
  const { byteLength, allocationByteLength } = there.buffer;
  const label = `probe of ${other.name}`;
  using mapped = DeviceBuffer.import(device, fd, {
    label,
    byteLength,
    allocationByteLength,
    access: "read",
  });
  const received = new Uint8Array(byteLength);
  await mapped.read(0, received);
  verifyPattern(received, `memory of ${other.name} that was mapped here`);
  return `memory of ${other.name} mapped on ${device.name}, and copies both ways, verified`;
}

/** @throws NVRTC_NOT_FOUND */
export async function probeCompiler(device: Device): Promise<string> {
  const source = 'extern "C" __global__ void probe(float* to) { to[threadIdx.x] += 1; }';
  const target = device.facts.computeCapability === undefined ? {} : { device };
  const { arch, kernelNames } = await Program.compile(source, { ...target, name: "probe.cu" });
  expect("the names of the kernels", kernelNames.join(), "probe");
  return `compiled a kernel for ${arch}`;
}

function expect(what: string, found: unknown, wanted: unknown): void {
  if (found === wanted) return;
  throw new CudaIpcError(
    "VERIFICATION_FAILED",
    `${what} is ${String(found)}, wanted ${String(wanted)}`,
  );
}
