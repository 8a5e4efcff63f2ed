/**
 * Tries what a bridge to other machines needs. Most users have one machine, so nothing of it counts
 * as a failure of this one.
 */
import { Deadline } from "../../base/deadline.js";
import type { NatsOptions } from "../../bridge/names/nats-options.js";
import { type Check, check, fact } from "./check.js";

const LIMIT_MS = 15_000;
const KINDS = { rdma: /^(rc|ud|dc)/, cuda: /^cuda/, tcp: /^tcp/ } as const;

const UNENCRYPTED = [
  "plain UCX does not encrypt: whoever reads the network between machines reads the arrays",
  "use a private network or WireGuard, and give its interface to cuda-ipc bridge --interface",
];

/** @param nats the server and login, if a server is named */
export async function machineChecks(
  nats: NatsOptions | undefined,
  signal: AbortSignal,
): Promise<Check[]> {
  const ucx = optional(await check("UCX", describeUcx));
  const server = await natsCheck(nats, signal);
  if (ucx.state !== "ok") return [ucx, server];
  return [{ ...ucx, notes: UNENCRYPTED }, server];
}

async function describeUcx(): Promise<string> {
  const { probeUcx } = await import("../../ucx/probe-ucx.js");
  // As the bridge, if it has its settings from the environment.
  const { CUDA_IPC_BRIDGE_INTERFACE: named } = process.env;
  const { path, version, transports } = await probeUcx(named === "" ? undefined : named);
  const kinds = Object.entries(KINDS).map(([name, kind]) => {
    const has = transports.some((it) => kind.test(it));
    return has ? name : `no ${name}`;
  });
  return `version ${version} at ${path} has ${kinds.join(", ")}: ${transports.join(", ")}`;
}

async function natsCheck(nats: NatsOptions | undefined, signal: AbortSignal): Promise<Check> {
  if (nats === undefined) {
    const client = optional(await check("NATS", describeClient));
    return client.state === "ok" ? fact("NATS", client.detail) : client;
  }
  return optional(await check("NATS", () => describeNats(nats, signal)));
}

async function describeClient(): Promise<string> {
  const { loadNats } = await import("../../bridge/names/load-nats.js");
  await loadNats();
  return "its client is installed; no server was tried, because CUDA_IPC_NATS names none";
}

async function describeNats(nats: NatsOptions, signal: AbortSignal): Promise<string> {
  const { probeNats } = await import("../../bridge/names/probe-nats.js");
  const deadline = new Deadline("try NATS", { signal, timeoutMs: LIMIT_MS }, LIMIT_MS);
  const { version, roundTripMs } = await probeNats(nats, deadline);
  return `version ${version} stores a name in ${roundTripMs.toFixed(1)} ms`;
}

/** What is missing is missing only for users of several machines. */
function optional(found: Check): Check {
  return found.state === "missing" ? { ...found, state: "not supported" } : found;
}
