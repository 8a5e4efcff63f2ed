/**
 * Asks the bridge of this machine: to fetch a name, for a worker of another machine, and what it
 * knows of other machines.
 */
import type { Deadline } from "../../base/deadline.js";
import type { ErrorCode } from "../../base/error-codes.js";
import { CudaIpcError, hasCode, SystemError } from "../../base/errors.js";
import { defaults } from "../../base/limits.js";
import { closeFds } from "../../os/foreign-fd.js";
import { PeerLink, refusedBy } from "../../peer/peer-link.js";
import {
  type BridgeRequest,
  type BridgeStatus,
  bridgeSocketPath,
  type CopyUnderWay,
  type OfferedWorker,
  type PullReply,
  pullReplySchema,
  statusReplySchema,
  workerReplySchema,
} from "../../wire/bridge-messages.js";
import { decodePeerMessage } from "../../wire/codec.js";
import type { Refusal } from "../../wire/peer-messages.js";

export interface PullOptions {
  readonly deadline: Deadline;
  /** Whether the deadline counts for the fetch, too, and not only until it begins. */
  readonly isLimited: boolean;
  readonly wait: boolean;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((reply: PullReply & { readonly state: "fetching" }) => void) | undefined;
}

const VERSION = 1;

/**
 * Resolves when this machine's hub has the name.
 * @throws BRIDGE_UNAVAILABLE; NOT_FOUND if `wait` is false; PEER_GONE if the other machine is gone;
 * TIMEOUT, ABORTED
 */
export async function pullName(
  hubSocketPath: string,
  name: string,
  { deadline, isLimited, wait, signal, onProgress }: PullOptions,
): Promise<PullReply & { readonly state: "done" }> {
  using link = connectToBridge(hubSocketPath);
  const stop = () => link.close();
  signal?.addEventListener("abort", stop, { once: true });
  let waiting: (PullReply & { readonly state: "waiting" }) | undefined;
  let isFetching = false;
  const silent = () => "this machine's bridge says nothing";
  try {
    signal?.throwIfAborted();
    let limit = deadline;
    let bytes = await ask(link, { v: VERSION, op: "pull", name, wait }, limit);
    for (;;) {
      const reply = decodePeerMessage("the bridge's answer", pullReplySchema, bytes);
      if (!reply.ok) throw refusal(reply);
      if (reply.state === "done") return reply;
      waiting = reply.state === "waiting" ? reply : undefined;
      if (reply.state === "fetching") {
        onProgress?.(reply);
        isFetching = true;
      }
      // A fetch takes as long as it takes, but a bridge that stands still must not hold us up.
      if (isFetching && !isLimited) limit = deadline.withTimeout(defaults.bridgeSilenceMs, silent);
      bytes = await ask(link, { v: VERSION, op: "next" }, limit);
    }
  } catch (error) {
    if (waiting === undefined || !hasCode(error, "TIMEOUT")) throw error;
    const found = waiting.namesAway
      ? "NATS does not answer this machine's bridge, so nothing new is found"
      : "no machine whose bridge runs has announced it";
    throw deadline.timedOut(found, error);
  } finally {
    signal?.removeEventListener("abort", stop);
  }
}

/**
 * Asks for an offer of a worker on another machine, which waits a while on this machine's hub.
 * @param except workers that are not wanted
 * @throws BRIDGE_UNAVAILABLE; NOT_FOUND if no machine has a free one; PEER_GONE, TIMEOUT, ABORTED
 */
export async function askForWorker(
  hubSocketPath: string,
  service: string,
  except: readonly string[],
  deadline: Deadline,
): Promise<OfferedWorker> {
  using link = connectToBridge(hubSocketPath);
  const request: BridgeRequest = { v: VERSION, op: "worker", service, except: [...except] };
  const bytes = await ask(link, request, deadline);
  const reply = decodePeerMessage("the bridge's answer", workerReplySchema, bytes);
  if (!reply.ok) throw refusal(reply);
  return reply;
}

/** The usual remedies of these are for one machine. */
const remedies: { readonly [Code in ErrorCode]?: string } = {
  NOT_FOUND:
    "List what machines announce: cuda-ipc bridge status. The bridge of its machine needs " +
    "--announce with a pattern that matches the name.",
  PROTOCOL_MISMATCH:
    "Upgrade cuda-ipc on the machine of the older bridge, then start its bridge again: " +
    "cuda-ipc bridge status shows the version of each.",
  UNTRUSTED_PEER:
    "Something other than a bridge of yours answered, or the network changed a message. Check " +
    "who may log in to NATS and who can reach the ports of UCX: see docs/machines.md.",
};

function refusal(reply: Refusal): CudaIpcError {
  const error = refusedBy(reply);
  return new CudaIpcError(error.code, error.message, { remedy: remedies[error.code] });
}

/** @throws BRIDGE_UNAVAILABLE, TIMEOUT, ABORTED */
export async function askBridge(hubSocketPath: string, deadline: Deadline): Promise<BridgeStatus> {
  using link = connectToBridge(hubSocketPath);
  const names: BridgeStatus["names"] = [];
  let after: string | undefined;
  for (;;) {
    const page = await askPage(link, after, deadline);
    names.push(...page.names);
    if (page.next === null) return { ...page, names };
    after = page.next;
  }
}

/** What the bridge is copying now. @throws BRIDGE_UNAVAILABLE, TIMEOUT, ABORTED */
export async function askCopies(
  hubSocketPath: string,
  deadline: Deadline,
): Promise<readonly CopyUnderWay[]> {
  using link = connectToBridge(hubSocketPath);
  return (await askPage(link, undefined, deadline)).fetches;
}

async function askPage(
  link: PeerLink,
  after: string | undefined,
  deadline: Deadline,
): Promise<BridgeStatus> {
  const page = after === undefined ? {} : { after };
  const bytes = await ask(link, { v: VERSION, op: "status", ...page }, deadline);
  const reply = decodePeerMessage("the bridge's answer", statusReplySchema, bytes);
  if (!reply.ok) throw refusedBy(reply);
  return reply;
}

/** Asks the bridge. It sends no descriptors, so any that come with its answer are closed. */
async function ask(
  link: PeerLink,
  request: BridgeRequest,
  deadline: Deadline,
): Promise<Uint8Array> {
  const { bytes, fds } = await link.request(request, deadline);
  closeFds(fds);
  return bytes;
}

function connectToBridge(hubSocketPath: string): PeerLink {
  const path = bridgeSocketPath(hubSocketPath);
  try {
    return PeerLink.connect(path);
  } catch (error) {
    const isAbsent =
      error instanceof SystemError && ["ENOENT", "ECONNREFUSED"].includes(error.errnoName);
    if (!isAbsent) throw error;
    const message = `Cannot ask other machines: no bridge listens at ${path}`;
    throw new CudaIpcError("BRIDGE_UNAVAILABLE", message, { cause: error });
  }
}
