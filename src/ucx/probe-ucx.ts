/** Tries UCX for real: two workers of this process send each other a message. */
import { Deadline } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { UcxContext } from "./ucx-context.js";
import { memoryOf, UcxWorker } from "./ucx-worker.js";

export interface UcxFindings {
  readonly path: string;
  readonly version: string;
  /** As `tcp/eth0`. */
  readonly transports: readonly string[];
}

const TAG = 7n;
const LIMIT_MS = 5000;

/**
 * @param networkInterface as for `UcxContext.open`
 * @throws ENGINE_NOT_FOUND, UNSUPPORTED, VERIFICATION_FAILED, TIMEOUT
 */
export async function probeUcx(networkInterface?: string): Promise<UcxFindings> {
  using context = UcxContext.open(networkInterface);
  using one = UcxWorker.create(context);
  using other = UcxWorker.create(context);
  // A failure ends the wait below at its limit.
  one.connect(other.address, () => {});
  const sent = new Uint8Array(new ArrayBuffer(1024)).fill(0x5a);
  const received = new Uint8Array(new ArrayBuffer(1024));
  const deadline = new Deadline("send a message by UCX", { timeoutMs: LIMIT_MS }, LIMIT_MS);
  const posted = other.receive(memoryOf(received), TAG);
  posted.byteLength.catch(() => {});
  await deadline.race(one.send(memoryOf(sent), TAG), () => {});
  const byteLength = await deadline.race(posted.byteLength, () => {});
  if (byteLength !== sent.byteLength || Buffer.compare(sent, received) !== 0)
    throw new CudaIpcError("VERIFICATION_FAILED", "Cannot trust UCX: other bytes came than went");
  const { path, version } = context;
  return { path, version, transports: context.transports() };
}
