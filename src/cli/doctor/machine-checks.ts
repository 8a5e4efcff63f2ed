/**
 * Tries what a bridge to other machines needs. Most users have one machine, so nothing of it counts
 * as a failure of this one.
 */
import { Deadline } from "../../base/deadline.js";
import { type Check, check, fact } from "./check.js";

const LIMIT_MS = 5000;
const KINDS = { rdma: /^(rc|ud|dc)/, cuda: /^cuda/, tcp: /^tcp/ } as const;

/** @param url of the NATS server, from CUDA_IPC_NATS */
export async function machineChecks(
  url: string | undefined,
  signal: AbortSignal,
): Promise<Check[]> {
  const ucx = optional(await check("UCX", describeUcx));
  if (ucx.state !== "ok") return [ucx, await natsCheck(url, signal)];
  const notes = ["plain UCX does not encrypt: use a private network between machines"];
  return [{ ...ucx, notes }, await natsCheck(url, signal)];
}

async function describeUcx(): Promise<string> {
  const { probeUcx } = await import("../../ucx/probe-ucx.js");
  const { path, version, transports } = await probeUcx();
  const has = Object.entries(KINDS)
    .filter(([, kind]) => transports.some((it) => kind.test(it)))
    .map(([name]) => name);
  const kinds = has.length === 0 ? "no network" : has.join(", ");
  return `version ${version} at ${path}, with ${kinds}: ${transports.join(", ")}`;
}

async function natsCheck(url: string | undefined, signal: AbortSignal): Promise<Check> {
  if (url === undefined || url === "")
    return fact("NATS", "not tried: CUDA_IPC_NATS names no server");
  return optional(await check("NATS", () => describeNats(url, signal)));
}

async function describeNats(url: string, signal: AbortSignal): Promise<string> {
  const { probeNats } = await import("../../bridge/names/probe-nats.js");
  const deadline = new Deadline("try NATS", { signal, timeoutMs: LIMIT_MS }, LIMIT_MS);
  const { version, roundTripMs } = await probeNats(url, deadline);
  return `version ${version} stores a name in ${roundTripMs.toFixed(1)} ms`;
}

/** What is missing is missing only for users of several machines. */
function optional(found: Check): Check {
  return found.state === "missing" ? { ...found, state: "not supported" } : found;
}
