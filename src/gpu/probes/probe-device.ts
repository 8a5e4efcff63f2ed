/**
 * Tests the features of a device that this package needs, for `doctor`. Each probe really uses the
 * feature: copies are compared byte for byte, and waits are seen to wait. Probes that need a second
 * process are in the doctor's folder.
 */
import { formatBytes } from "../../base/bytes.js";
import { Deadline } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { Scope } from "../../base/scope.js";
import type { DevicePointer } from "../../driver/gpu-driver.js";
import { type Access, Mapping } from "../../os/mapping.js";
import { createMemoryFile, reopenReadOnly } from "../../os/memory-file.js";
import type { Device } from "../device.js";
import { DeviceBuffer } from "../memory/device-buffer.js";
import { waitUntil } from "../order/adaptive-wait.js";
import type { Stream } from "../order/stream.js";
import { probeHostNuma, probeOperations } from "./probe-mechanisms.js";
import { PROBE_BYTES, PROBE_TIMEOUT_MS, probePattern, verifyPattern } from "./probe-pattern.js";

export interface DeviceProbe {
  readonly name: string;
  /** True if a device may lack the feature. */
  readonly optional?: boolean;
  /** Resolves with the finding, in words. Rejects with the reason if the feature does not work. */
  run(device: Device): Promise<string>;
}

export const deviceProbes: readonly DeviceProbe[] = [
  { name: "shared memory", run: probeSharedMemory },
  { name: "copies", run: probeCopies },
  { name: "waiting", run: (device) => probeWaiting(device, "read-write") },
  { name: "waiting, read-only", run: (device) => probeWaiting(device, "read") },
  { name: "element operations", run: probeOperations },
  { name: "host-numa memory", optional: true, run: probeHostNuma },
];

const PAGE_BYTES = 4096;

async function probeSharedMemory(device: Device): Promise<string> {
  using made = DeviceBuffer.allocate(device, PROBE_BYTES, { label: "probe" });
  using fd = made.exportFd();
  const { byteLength, allocationByteLength } = made;
  const label = "probe, mapped again";
  using mapped = DeviceBuffer.import(device, fd, {
    label,
    byteLength,
    allocationByteLength,
    access: "read",
  });
  await made.write(0, probePattern(byteLength));
  const received = new Uint8Array(byteLength);
  await mapped.read(0, received);
  verifyPattern(received, "memory that was mapped a second time");
  const size = formatBytes(byteLength);
  return (
    `${size} allocated, exported as a file descriptor, mapped again for reading, verified ` +
    `(${made.mechanism})`
  );
}

async function probeCopies(device: Device): Promise<string> {
  const { driver, ordinal } = device;
  const scope = new Scope();
  try {
    const from = scope.own(
      DeviceBuffer.allocate(device, PROBE_BYTES, { label: "probe" }),
      (buffer) => buffer.close(),
    );
    const to = scope.own(DeviceBuffer.allocate(device, PROBE_BYTES, { label: "probe" }), (buffer) =>
      buffer.close(),
    );
    const release = driver.freeStaging.bind(driver);
    const out = scope.own(driver.allocateStaging(ordinal, PROBE_BYTES), release);
    const back = scope.own(driver.allocateStaging(ordinal, PROBE_BYTES), release);
    const stream = scope.own(device.createStream(), (stream) => stream.close());
    out.bytes.set(probePattern(PROBE_BYTES));
    driver.copyToDevice(stream.handle, from.pointer, out.address, PROBE_BYTES);
    driver.copyOnDevice(stream.handle, to.pointer, from.pointer, PROBE_BYTES);
    driver.copyToHost(stream.handle, back.address, to.pointer, PROBE_BYTES);
    await stream.synchronize({ timeoutMs: PROBE_TIMEOUT_MS });
    verifyPattern(back.bytes, "a copy");
  } finally {
    scope.close();
  }
  return `${formatBytes(PROBE_BYTES)} to the device, on the device and back, verified`;
}

/**
 * Lets a stream wait for a word that the CPU writes, in shared memory that the device may only read
 * or also write. If it may write, the stream then writes a word that the CPU must see.
 */
async function probeWaiting(device: Device, access: Access): Promise<string> {
  const word = WaitableWord.create(device, access);
  let stream: Stream | undefined;
  try {
    stream = device.createStream();
    device.driver.waitWord(stream.handle, word.pointer, 1n);
    if (stream.isIdle())
      throw new CudaIpcError(
        "VERIFICATION_FAILED",
        "A stream did not wait for a word of shared memory",
      );
    word.store(1n);
    await stream.synchronize({ timeoutMs: PROBE_TIMEOUT_MS });
    if (access === "read")
      return "a stream waited for a word of shared memory that the device may only read";
    device.driver.writeWord(stream.handle, word.pointer, 2n);
    await waitUntil(() => word.load() === 2n, new Deadline("see the word", {}, PROBE_TIMEOUT_MS));
    await stream.synchronize({ timeoutMs: PROBE_TIMEOUT_MS });
    return (
      "a stream waited for a word of shared memory that the CPU wrote, and wrote one that the " +
      "CPU saw"
    );
  } finally {
    // A stream that still waits would block the closing of the device forever.
    word.store(2n ** 62n);
    stream?.close();
    word.close();
  }
}

/** A word of shared memory that is registered with a device. The CPU can always write it. */
class WaitableWord {
  readonly pointer: DevicePointer;
  readonly #words: BigInt64Array;
  readonly #scope: Scope;

  private constructor(pointer: DevicePointer, words: BigInt64Array, scope: Scope) {
    this.pointer = pointer;
    this.#words = words;
    this.#scope = scope;
  }

  static create(device: Device, access: Access): WaitableWord {
    const { driver, ordinal } = device;
    const scope = new Scope();
    try {
      const file = scope.own(createMemoryFile("cuda-ipc-probe", PAGE_BYTES), (fd) => fd.close());
      const writable = scope.own(Mapping.shared(file, PAGE_BYTES, "read-write"), (mapping) =>
        mapping.close(),
      );
      const twin = scope.own(access === "read" ? reopenReadOnly(file) : file.duplicate(), (fd) =>
        fd.close(),
      );
      const seen = scope.own(Mapping.shared(twin, PAGE_BYTES, access), (mapping) =>
        mapping.close(),
      );
      const pointer = driver.registerHostMemory(ordinal, seen.address, PAGE_BYTES, access);
      scope.defer(() => driver.unregisterHostMemory(ordinal, seen.address));
      const bytes = writable.view(0, PAGE_BYTES);
      return new WaitableWord(pointer, new BigInt64Array(bytes.buffer, bytes.byteOffset, 1), scope);
    } catch (error) {
      scope.close();
      throw error;
    }
  }

  store(value: bigint): void {
    Atomics.store(this.#words, 0, value);
  }

  load(): bigint {
    return Atomics.load(this.#words, 0);
  }

  close(): void {
    this.#scope.close();
  }
}
