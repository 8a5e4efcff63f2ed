/**
 * Probes that need a second process, because a process cannot open its own handles. Each probe
 * starts one, and ends it within a time limit.
 */
import { formatBytes } from "../../base/bytes.js";
import { CudaIpcError } from "../../base/errors.js";
import type { Device } from "../../gpu/device.js";
import { MemoryPool } from "../../gpu/memory/memory-pool.js";
import { PROBE_BYTES, probePattern, verifyPattern } from "../../gpu/probes/probe-pattern.js";
import { openShared } from "../../peer/open-shared.js";
import { share } from "../../peer/share.js";
import { ProbePeer, type ProbePeerOptions } from "./probe-peer.js";

export interface ProcessProbe {
  readonly name: string;
  /** The driver's attribute that says whether the device supports it. */
  readonly attribute?: string;
  /** Resolves to what was found, in words. Rejects with the reason if it does not work. */
  run(device: Device, options: ProbePeerOptions): Promise<string>;
}

export const processProbes: readonly ProcessProbe[] = [
  { name: "legacy handles", run: probeLegacy },
  { name: "events", attribute: "IPC_EVENT_SUPPORTED", run: probeEvent },
  { name: "memory pools", attribute: "MEMORY_POOLS_SUPPORTED", run: probePool },
];

/** The first use of a GPU can take a process some seconds. */
export const PROCESS_PROBE_TIMEOUT_MS = 20_000;

const size = formatBytes(PROBE_BYTES);

async function probeLegacy(device: Device, options: ProbePeerOptions): Promise<string> {
  await using peer = ProbePeer.start("legacy", device.name, options);
  const document = await peer.says();
  {
    using array = (await openShared(document, { device, access: "read-write" })).expectDType(
      "uint8",
    );
    verifyPattern(await array.read(), "memory opened by its handle");
    await array.write(probePattern(PROBE_BYTES, 100));
  }
  peer.tell("verify");
  await peer.finished();
  return (
    `${size} of another process opened by a handle of 64 bytes, ` +
    "written and verified on both sides"
  );
}

async function probeEvent(device: Device, options: ProbePeerOptions): Promise<string> {
  await using peer = ProbePeer.start("event", device.name, options);
  using event = await openShared(await peer.says(), { kind: "event", device });
  if (event.done) {
    throw new CudaIpcError(
      "VERIFICATION_FAILED",
      "An event of another process is done before its work is",
    );
  }
  peer.tell("signal");
  await event.synchronize(options);
  // WHY not before: if the process died, a GPU stream that waits for its event could never be
  // closed.
  using stream = device.createStream();
  stream.wait(event);
  await stream.synchronize(options);
  peer.tell("end");
  await peer.finished();
  return "waited for an event of another process until its work was done";
}

async function probePool(device: Device, options: ProbePeerOptions): Promise<string> {
  using pool = MemoryPool.create(device, {
    maxBytes: 4 * PROBE_BYTES,
    shared: true,
    label: "probe",
  });
  using array = pool.allocateArray({ dtype: "uint8", shape: [PROBE_BYTES] });
  await array.write(probePattern(PROBE_BYTES));
  using shared = share(array);
  {
    await using peer = ProbePeer.start("pool", device.name, options);
    peer.tell(shared.document);
    await peer.finished();
  }
  verifyPattern(await array.read(), "memory of a pool that another process wrote", 100);
  return `${size} of a shared pool opened in another process, written and verified on both sides`;
}
