/** Gets the file descriptors of a shared document from the process that shares it, and says what became of it where that fails. */
import type { Deadline } from "../base/deadline.js";
import { CudaIpcError, SystemError } from "../base/errors.js";
import { retryPause } from "../base/retry-pause.js";
import { acquireInAsync } from "../base/scope.js";
import type { ExportedGrowth } from "../gpu/growing-memory.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { whereaboutsOf } from "../os/process-identity.js";
import type { Packet } from "../os/seqpacket.js";
import { decodePeerMessage } from "../wire/codec.js";
import { fetchedSchema, grownSchema, PEER_VERSION, type PeerMessage } from "../wire/peer-messages.js";
import type { SharedDocument } from "../wire/shared-document.js";
import { closeFds, PeerLink } from "./peer-link.js";
import { refusedBy } from "./refusal.js";

/**
 * The caller owns the descriptors.
 * @throws PEER_GONE where the exporter has ended, STALE_HANDLE for another boot or what was withdrawn, UNTRUSTED_PEER, TIMEOUT, ABORTED
 */
export async function fetchFds(document: FetchableDocument, deadline: Deadline): Promise<readonly OwnedFd[]> {
  const request = { v: PEER_VERSION, op: "fetch", token: document.fds.token } as const;
  return ask(document, request, deadline, (bytes, fds) => {
    const reply = decodePeerMessage("an answer with file descriptors", fetchedSchema, bytes);
    if (!reply.ok) throw refusedBy(reply);
    return fds;
  });
}

/** The pieces of memory that grows from number `from` on. The caller owns the descriptors. @throws as `fetchFds` */
export async function fetchGrowth(
  document: FetchableDocument,
  from: number,
  deadline: Deadline,
): Promise<ExportedGrowth> {
  const request = { v: PEER_VERSION, op: "grow", token: document.fds.token, from } as const;
  return ask(document, request, deadline, (bytes, fds) => {
    const reply = decodePeerMessage("an answer with pieces of memory", grownSchema, bytes);
    if (!reply.ok) throw refusedBy(reply);
    return { fds, growth: reply.growth };
  });
}

/** What has descriptors to be fetched. */
export type FetchableDocument = Extract<SharedDocument, { readonly fds: object }>;

/** The descriptors that came are the result's, or closed where `take` throws. */
async function ask<T>(
  document: FetchableDocument,
  request: PeerMessage,
  deadline: Deadline,
  take: (bytes: Uint8Array, fds: readonly OwnedFd[]) => T,
): Promise<T> {
  checkExporter("open what was shared", document, ["other-boot"]);
  return acquireInAsync(async (scope) => {
    const link = await connect(document, deadline);
    let packet: Packet;
    try {
      packet = await link.request(request, deadline);
      scope.own(packet.fds, closeFds);
    } finally {
      link.close();
    }
    return take(packet.bytes, packet.fds);
  });
}

/**
 * Fails where the exporter is one of these.
 * @param attempt in words, for the message
 * @throws PEER_GONE, STALE_HANDLE
 */
export function checkExporter(
  attempt: string,
  { exporter }: Pick<SharedDocument, "exporter">,
  refused: readonly ("gone" | "other-boot")[] = ["gone", "other-boot"],
): void {
  const found = whereaboutsOf(exporter);
  if (found === "alive" || !refused.includes(found)) return;
  if (found === "gone") {
    throw new CudaIpcError("PEER_GONE", `Cannot ${attempt}: process ${exporter.pid}, which shared it, has ended`);
  }
  const message = `Cannot ${attempt}: it is of another machine, or of this one before it was started again`;
  throw new CudaIpcError("STALE_HANDLE", message);
}

async function connect(document: FetchableDocument, deadline: Deadline): Promise<PeerLink> {
  for (;;) {
    deadline.check();
    try {
      return PeerLink.connect(document.fds.socket);
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      if (error.errnoName !== "EAGAIN") throw absent(document, error);
    }
    await retryPause(deadline);
  }
}

/** Why nobody listens. An exporter that withdraws removes its socket's file, so one that is there still was left by a death. */
function absent(document: FetchableDocument, error: SystemError): unknown {
  if (error.errnoName !== "ENOENT" && error.errnoName !== "ECONNREFUSED") return error;
  const { pid } = document.exporter;
  if (error.errnoName === "ECONNREFUSED" || whereaboutsOf(document.exporter) !== "alive") {
    const message = `Cannot open what was shared: process ${pid}, which shared it, has ended`;
    return new CudaIpcError("PEER_GONE", message, { cause: error });
  }
  const message = `Cannot open what was shared: process ${pid} shares it no longer`;
  return new CudaIpcError("STALE_HANDLE", message, { cause: error });
}
