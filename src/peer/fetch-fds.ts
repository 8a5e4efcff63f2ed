/**
 * Gets the file descriptors of a shared document from the process that shares it. Its errors say
 * what happened to that process.
 */
import type { Deadline } from "../base/deadline.js";
import { CudaIpcError, SystemError } from "../base/errors.js";
import { retryPause } from "../base/pause.js";
import { acquireInAsync } from "../base/scope.js";
import { exporterOfHandle } from "../gpu/memory/exporters.js";
import type { ExportedGrowth } from "../gpu/memory/growing-memory.js";
import { closeFds } from "../os/foreign-fd.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { type ProcessIdentity, whereaboutsOf } from "../os/process-identity.js";
import { type Packet, SeqpacketSocket } from "../os/seqpacket.js";
import { decodePeerMessage } from "../wire/codec.js";
import { decodeHandle } from "../wire/ipc-documents.js";
import {
  fetchedSchema,
  grownSchema,
  PEER_VERSION,
  type PeerMessage,
} from "../wire/peer-messages.js";
import type { SharedDocument } from "../wire/shared-document.js";
import { PeerLink, refusedBy } from "./peer-link.js";

/** The descriptors that an exporter sent. The caller owns all of them. */
interface Fetched {
  readonly fds: readonly OwnedFd[];
  /**
   * A pidfd of the exporter, from the socket. Undefined if the exporter has ended, or if it is in
   * another PID namespace and Linux is older than 6.5.
   */
  readonly exporter: OwnedFd | undefined;
}

/**
 * Like `fetchFds`, but also returns a pidfd of the exporter. The pid in the document identifies
 * nothing in another PID namespace.
 */
export async function fetchWithExporter(
  document: FetchableDocument,
  deadline: Deadline,
): Promise<Fetched> {
  return acquireInAsync(async (scope) => {
    let exporter: OwnedFd | undefined;
    const fds = await fetchFds(document, deadline, (link) => {
      exporter = link.peerPidfd();
      scope.defer(() => exporter?.close());
    });
    return { fds, exporter };
  });
}

/**
 * Fetches the descriptors of the document. The caller owns them.
 * @param onConnected called before the exporter replies, because afterwards it may hang up
 * @throws PEER_GONE if the exporter has ended
 * @throws STALE_HANDLE if the document is of another boot or was withdrawn
 * @throws UNTRUSTED_PEER, TIMEOUT, ABORTED
 */
export async function fetchFds(
  document: FetchableDocument,
  deadline: Deadline,
  onConnected: (link: PeerLink) => void = () => {},
): Promise<readonly OwnedFd[]> {
  const request = { v: PEER_VERSION, op: "fetch", token: document.fds.token } as const;
  const take = (bytes: Uint8Array, fds: readonly OwnedFd[]) => {
    const reply = decodePeerMessage("an answer with file descriptors", fetchedSchema, bytes);
    if (!reply.ok) throw refusedBy(reply);
    return fds;
  };
  return ask(document, request, deadline, { onConnected, take });
}

/**
 * Fetches the pieces of growing memory, starting with number `from`. The caller owns the
 * descriptors. Throws the errors of `fetchFds`.
 */
export async function fetchGrowth(
  document: FetchableDocument,
  from: number,
  deadline: Deadline,
): Promise<ExportedGrowth> {
  const request = { v: PEER_VERSION, op: "grow", token: document.fds.token, from } as const;
  const take = (bytes: Uint8Array, fds: readonly OwnedFd[]) => {
    const reply = decodePeerMessage("an answer with pieces of memory", grownSchema, bytes);
    if (!reply.ok) throw refusedBy(reply);
    return { fds, growth: reply.growth };
  };
  return ask(document, request, deadline, { take });
}

/** A document whose exporter sends descriptors. */
export type FetchableDocument = Extract<SharedDocument, { readonly fds: object }>;

interface Exchange<T> {
  readonly onConnected?: (link: PeerLink) => void;
  readonly take: (bytes: Uint8Array, fds: readonly OwnedFd[]) => T;
}

/** Sends one request. Closes the received descriptors if `take` throws. */
async function ask<T>(
  document: FetchableDocument,
  request: PeerMessage,
  deadline: Deadline,
  { onConnected, take }: Exchange<T>,
): Promise<T> {
  checkBoot("open the shared object", document);
  return acquireInAsync(async (scope) => {
    const link = await connect(document, deadline);
    let packet: Packet;
    try {
      onConnected?.(link);
      packet = await link.request(request, deadline);
      scope.own(packet.fds, closeFds);
    } finally {
      link.close();
    }
    return take(packet.bytes, packet.fds);
  });
}

/**
 * Checks that the exporter still runs.
 * @param attempt the action that failed, for the error message
 * @throws PEER_GONE if the exporter has ended
 * @throws STALE_HANDLE if the document is of another boot
 */
export function checkExporter(attempt: string, document: SharedDocument): void {
  const exporter = exporterOf(document);
  // CUDA's own handles do not name their exporter. The driver refuses those of dead processes.
  if (exporter === undefined) return;
  checkBoot(attempt, { exporter });
  const found = whereaboutsOf(exporter);
  if (
    found === "gone" ||
    (found === "unseen" && "fds" in document && !isListenedAt(document.fds.socket))
  ) {
    throw new CudaIpcError(
      "PEER_GONE",
      `Cannot ${attempt}: process ${exporter.pid}, which shared it, has ended`,
    );
  }
}

function exporterOf(document: SharedDocument): ProcessIdentity | undefined {
  if (document.kind !== "raw-handle") return document.exporter;
  return exporterOfHandle(decodeHandle(document.handle));
}

function checkBoot(attempt: string, { exporter }: Pick<FetchableDocument, "exporter">): void {
  if (whereaboutsOf(exporter) !== "other-boot") return;
  const found = "it is of another machine or of an earlier boot";
  throw new CudaIpcError("STALE_HANDLE", `Cannot ${attempt}: ${found}`);
}

/**
 * False if a process died and left the socket file. A missing file proves nothing, because its
 * folder may not be mounted here.
 */
function isListenedAt(path: string): boolean {
  try {
    SeqpacketSocket.connect(path).close();
    return true;
  } catch (error) {
    return !(error instanceof SystemError && error.errnoName === "ECONNREFUSED");
  }
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

/**
 * The error that says why nobody listens. An exporter that withdraws its documents removes the
 * socket file. So if the file is still there, the exporter was killed.
 */
function absent(document: FetchableDocument, error: SystemError): unknown {
  if (error.errnoName !== "ENOENT" && error.errnoName !== "ECONNREFUSED") return error;
  const { exporter, fds } = document;
  const attempt = "Cannot open the shared object";
  const whereabouts = whereaboutsOf(exporter);
  if (error.errnoName === "ECONNREFUSED" || whereabouts === "gone") {
    const found = `process ${exporter.pid}, which shared it, has ended`;
    return new CudaIpcError("PEER_GONE", `${attempt}: ${found}`, { cause: error });
  }
  let found = `process ${exporter.pid} has stopped sharing it`;
  if (whereabouts === "unseen") {
    found += `, or socket ${fds.socket} is not visible in this container.`;
    found += " Mount its folder at the same path in both containers.";
  }
  return new CudaIpcError("STALE_HANDLE", `${attempt}: ${found}`, { cause: error });
}
