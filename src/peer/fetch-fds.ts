/** Gets the file descriptors of a shared document from the process that shares it, and says what became of it where that fails. */
import type { Deadline } from "../base/deadline.js";
import { CudaIpcError, SystemError } from "../base/errors.js";
import { retryPause } from "../base/retry-pause.js";
import { acquireInAsync } from "../base/scope.js";
import type { ExportedGrowth } from "../gpu/growing-memory.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { whereaboutsOf } from "../os/process-identity.js";
import { type Packet, SeqpacketSocket } from "../os/seqpacket.js";
import { decodePeerMessage } from "../wire/codec.js";
import { fetchedSchema, grownSchema, PEER_VERSION, type PeerMessage } from "../wire/peer-messages.js";
import type { SharedDocument } from "../wire/shared-document.js";
import { closeFds, PeerLink } from "./peer-link.js";
import { refusedBy } from "./refusal.js";

/** What an exporter sent; the caller owns all of it. */
interface Fetched {
  readonly fds: readonly OwnedFd[];
  /** A pidfd of the exporter, as the socket gave it. Undefined if it has ended, or is of another PID namespace before Linux 6.5. */
  readonly exporter: OwnedFd | undefined;
}

/** As `fetchFds`, with the exporter itself: in another PID namespace its number means nothing. */
export async function fetchWithExporter(document: FetchableDocument, deadline: Deadline): Promise<Fetched> {
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
 * The caller owns the descriptors.
 * @param onConnected called before the exporter answers. Once it has hung up, nobody is there to be asked
 * @throws PEER_GONE where the exporter has ended, STALE_HANDLE for another boot or what was withdrawn, UNTRUSTED_PEER, TIMEOUT, ABORTED
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

/** The pieces of memory that grows from number `from` on. The caller owns the descriptors. @throws as `fetchFds` */
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

/** What has descriptors to be fetched. */
export type FetchableDocument = Extract<SharedDocument, { readonly fds: object }>;

interface Exchange<T> {
  readonly onConnected?: (link: PeerLink) => void;
  readonly take: (bytes: Uint8Array, fds: readonly OwnedFd[]) => T;
}

/** The descriptors that came are the result's, or closed where `take` throws. */
async function ask<T>(
  document: FetchableDocument,
  request: PeerMessage,
  deadline: Deadline,
  { onConnected, take }: Exchange<T>,
): Promise<T> {
  checkBoot("open what was shared", document);
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
 * Fails if the exporter has ended, or is of another boot.
 * @param attempt in words, for the message
 * @throws PEER_GONE, STALE_HANDLE
 */
export function checkExporter(attempt: string, document: SharedDocument): void {
  checkBoot(attempt, document);
  const { exporter } = document;
  const found = whereaboutsOf(exporter);
  if (found === "gone" || (found === "unseen" && "fds" in document && !isListenedAt(document.fds.socket))) {
    throw new CudaIpcError("PEER_GONE", `Cannot ${attempt}: process ${exporter.pid}, which shared it, has ended`);
  }
}

function checkBoot(attempt: string, { exporter }: Pick<SharedDocument, "exporter">): void {
  if (whereaboutsOf(exporter) !== "other-boot") return;
  const message = `Cannot ${attempt}: it is of another machine, or of this one before it was started again`;
  throw new CudaIpcError("STALE_HANDLE", message);
}

/** False if the socket was left by a death. One that is missing says nothing: its folder may not be mounted here. */
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

/** Why nobody listens. An exporter that withdraws removes its socket's file, so one that is there still was left by a death. */
function absent(document: FetchableDocument, error: SystemError): unknown {
  if (error.errnoName !== "ENOENT" && error.errnoName !== "ECONNREFUSED") return error;
  const { exporter, fds } = document;
  const whereabouts = whereaboutsOf(exporter);
  if (error.errnoName === "ECONNREFUSED" || whereabouts === "gone") {
    const message = `Cannot open what was shared: process ${exporter.pid}, which shared it, has ended`;
    return new CudaIpcError("PEER_GONE", message, { cause: error });
  }
  const place = `there is no socket ${fds.socket} in this container; mount its folder at the same path in both`;
  const unseen = whereabouts === "unseen" ? `, or ${place}` : "";
  const message = `Cannot open what was shared: process ${exporter.pid} shares it no longer${unseen}`;
  return new CudaIpcError("STALE_HANDLE", message, { cause: error });
}
