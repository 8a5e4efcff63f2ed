/**
 * UCX's settings for TCP. By itself UCX copies a large message into segments of 8 KiB, because it
 * takes TCP for slower than the copy. Measured over loopback, that takes twice the CPU time.
 */
import type { Libucp } from "../ffi/libucp.js";
import { ucsStatus } from "./ucx-status.js";

/** Names as in UCX's environment variables, without `UCX_`. */
const settings: Readonly<Record<string, string>> = {
  // WHY no rendezvous: it cannot send without a copy over TCP to a peer that may die.
  RNDV_THRESH: "inf",
  ZCOPY_THRESH: "16K",
  // The most that UCX sends in one call, and the buffer that it receives into. WHY no more: UCX
  // copies out of the buffer, which is then still in the processor's cache.
  TCP_RX_SEG_SIZE: "128K",
};

/** Transports for which UCX's own choice is good: memory of one host, and what is no transport. */
const network = /^(rc|ud|dc|ib|gga|srd|ugni|cxi|ofi)/;

/** Whether UCX may use a network other than TCP. It then knows best. */
export function hasFasterNetwork(transports: readonly string[]): boolean {
  return transports.some((name) => network.test(name));
}

/** Changes a configuration that was read. What the user has set in the environment stays. */
export function tuneForTcp(
  functions: Pick<Libucp, "ucp_config_modify">,
  configuration: bigint,
  env: NodeJS.ProcessEnv = process.env,
): void {
  for (const [name, value] of Object.entries(settings)) {
    if (env[`UCX_${name}`] !== undefined) continue;
    // A version without this setting is slower, and works.
    if (functions.ucp_config_modify(configuration, name, value) !== ucsStatus.UCS_OK) return;
  }
}
