/**
 * The side of the hub that starts: asks the one that runs for everything, builds it up, and serves once the other one has ended or
 * said that it will.
 */
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError, hasCode, SystemError } from "../base/errors.js";
import { defaults } from "../base/limits.js";
import { retryPause } from "../base/retry-pause.js";
import { acquireInAsync } from "../base/scope.js";
import { packageVersion } from "../base/version.js";
import { receiveBatches } from "../os/fd-batches.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { ProcessWatch } from "../os/process-watch.js";
import { checkCommonFolder, hubSocketPath, ownUid, ROOT } from "../os/runtime-folder.js";
import { SeqpacketSocket } from "../os/seqpacket.js";
import { decodeReply, decodeResult, encodeMessage } from "../wire/codec.js";
import { PROTOCOL_VERSION, type Request, type RequestOf, type ResultOf } from "../wire/messages.js";
import { describeError } from "./client-connections.js";
import { readHandedOver } from "./handed-over.js";
import { HubServer } from "./hub-server.js";
import { type HubServerOptions, setReach } from "./hub-start.js";
import { onePacket } from "./one-packet.js";
import { refusedBy } from "./refusal.js";
import { decodeWord, encodeWord, TAKEOVER_FORMAT } from "./takeover-messages.js";

/** What was taken over, from which process, and how long that took. */
export interface Predecessor {
  readonly pid: number;
  readonly objects: number;
  readonly clients: number;
  readonly milliseconds: number;
}

export interface Successor {
  readonly hub: HubServer;
  /** Undefined where no hub ran. */
  readonly predecessor: Predecessor | undefined;
}

/**
 * Takes the place of the hub that runs at this socket, or starts one where none does. Its clients notice nothing. Where this fails,
 * the hub that ran goes on.
 * @throws PERMISSION_DENIED, UNTRUSTED_PEER, PROTOCOL_MISMATCH, HUB_IN_USE where another one is about to take its place, TIMEOUT,
 * ABORTED, and as `HubServer.start`
 */
export async function takeOverHub(options: HubServerOptions & WaitOptions = {}): Promise<Successor> {
  const socketPath = hubSocketPath(options.socket);
  const deadline = new Deadline(`take over the hub at ${socketPath}`, options, defaults.takeoverTimeoutMs);
  for (;;) {
    deadline.check();
    const socket = tryConnect(socketPath);
    if (socket !== undefined) {
      const successor = await takeOverFrom(socket, options, deadline);
      if (successor !== undefined) return successor;
    } else {
      const hub = tryStart(options);
      if (hub !== undefined) return { hub, predecessor: undefined };
    }
    // One is just starting or ending.
    await retryPause(deadline);
  }
}

/** Undefined where the hub ended before it could hand over: there is none, or another one soon. */
async function takeOverFrom(
  socket: SeqpacketSocket,
  options: HubServerOptions,
  deadline: Deadline,
): Promise<Successor | undefined> {
  const startMs = performance.now();
  const log = options.log ?? (() => {});
  return acquireInAsync(async (scope) => {
    scope.own(socket, (socket) => socket.close());
    checkPeer(socket);
    const process = scope.own(new WatchedProcess(socket.peerPidfd()), (process) => process.close());
    let hub: HubServer;
    let pid: number;
    try {
      ({ pid } = await ask(socket, { op: "hello", client: { version: packageVersion(), program: "hub" } }, deadline));
      log(`asks hub ${pid} to hand over`);
      await ask(socket, { op: "takeover", format: TAKEOVER_FORMAT }, deadline);
      hub = scope.own(await build(socket, options, log, deadline), (hub) => hub.abandon());
    } catch (error) {
      if (!hasCode(error, "PEER_GONE") || !(await process.ends(deadline))) throw error;
      scope.close();
      return undefined;
    }
    log("ready");
    await untilOurs(socket, process, deadline);
    const { objects, clients } = hub.serve();
    // WHY only now: whom the hub serves may have changed with it.
    letIn(hub.socketPath, options, log);
    socket.close();
    process.close();
    return { hub, predecessor: { pid, objects, clients, milliseconds: performance.now() - startMs } };
  });
}

/** WHY nothing is thrown: this is the hub now, and serves those who are in. */
function letIn(socketPath: string, options: HubServerOptions, log: (line: string) => void): void {
  try {
    if (options.service?.ownsSocket !== true) setReach(socketPath, options);
  } catch (error) {
    log(describeError(error));
  }
}

/** Everything, but nothing of it acts yet. */
async function build(
  socket: SeqpacketSocket,
  options: HubServerOptions,
  log: (line: string) => void,
  deadline: Deadline,
): Promise<HubServer> {
  const items = await receiveBatches(socket, deadline);
  log("has everything");
  try {
    return HubServer.succeed(readHandedOver(items), options);
  } catch (error) {
    socket.trySend(encodeWord({ op: "failed", message: describeError(error).slice(0, 1000) }));
    throw error;
  }
}

/** Says that all is ready, and returns once nobody else can act on it. */
async function untilOurs(socket: SeqpacketSocket, process: WatchedProcess, deadline: Deadline): Promise<void> {
  const attempt = "take over the hub";
  try {
    sayReady(socket, attempt);
    const word = decodeWord(await onePacket(socket, attempt, deadline));
    if (word.op === "yours") return;
    throw new CudaIpcError("HUB_IN_USE", `Cannot ${attempt}: it goes on by itself, since this process took too long`);
  } catch (error) {
    // WHY the process and not the connection: where it lives, it goes on as it was, and two hubs would do the same work.
    if (hasCode(error, "PEER_GONE") && (await process.ends(deadline))) return;
    throw error;
  }
}

function sayReady(socket: SeqpacketSocket, attempt: string): void {
  try {
    if (socket.trySend(encodeWord({ op: "ready" }))) return;
  } catch (error) {
    // WHY: before it hung up it may have said that it goes on, and only what it said last tells that from its death.
    if (hasCode(error, "PEER_GONE")) return;
    throw error;
  }
  throw new CudaIpcError("TIMEOUT", `Cannot ${attempt}: it does not read`);
}

/** The process of the hub that runs. */
class WatchedProcess {
  readonly #watch: ProcessWatch | undefined;
  readonly #ended: Promise<void>;

  /** Takes over the pidfd; undefined for a process that has ended. */
  constructor(pidfd: OwnedFd | undefined) {
    let settle = () => {};
    this.#ended = new Promise((resolve) => {
      settle = resolve;
    });
    this.#watch = pidfd === undefined ? undefined : new ProcessWatch(pidfd, settle);
    if (pidfd === undefined) settle();
  }

  /** Whether it ends, now that it has hung up. WHY not asked at once: a process's sockets close before it has ended. */
  async ends(deadline: Deadline): Promise<boolean> {
    const grace = new Deadline("see the end of a hub", { signal: deadline.signal }, defaults.takeoverStepTimeoutMs);
    try {
      await grace.race(this.#ended, () => {});
      return true;
    } catch (error) {
      if (hasCode(error, "TIMEOUT")) return false;
      throw error;
    }
  }

  close(): void {
    this.#watch?.close();
  }
}

type Fields<Op extends Request["op"]> = Omit<RequestOf<Op>, "v" | "id">;

async function ask<Op extends "hello" | "takeover">(
  socket: SeqpacketSocket,
  fields: Fields<Op> & { readonly op: Op },
  deadline: Deadline,
): Promise<ResultOf<Op>> {
  const request = { v: PROTOCOL_VERSION, id: 1, ...fields } as unknown as Request;
  if (!socket.trySend(encodeMessage(request)))
    throw new CudaIpcError("TIMEOUT", "Cannot take over a hub: it does not read");
  const reply = decodeReply(await onePacket(socket, "take over a hub", deadline));
  if (!reply.ok) throw refusedBy(reply);
  return decodeResult(fields.op, reply.result);
}

/** Undefined where none listens. */
function tryConnect(socketPath: string): SeqpacketSocket | undefined {
  if (!checkCommonFolder(socketPath, new Set([ROOT, ownUid()]))) return undefined;
  try {
    return SeqpacketSocket.connect(socketPath);
  } catch (error) {
    if (error instanceof SystemError && ABSENT.has(error.errnoName)) return undefined;
    throw error;
  }
}

/** No file, nobody behind it, or a queue of connections that is full for the moment. */
const ABSENT = new Set(["ENOENT", "ECONNREFUSED", "EAGAIN"]);

function tryStart(options: HubServerOptions): HubServer | undefined {
  try {
    return HubServer.start(options);
  } catch (error) {
    if (hasCode(error, "HUB_RUNNING")) return undefined;
    throw error;
  }
}

/** @throws UNTRUSTED_PEER */
function checkPeer(socket: SeqpacketSocket): void {
  const { uid } = socket.peerCredentials();
  if (uid === ownUid() || uid === ROOT) return;
  const message = `Cannot take over the hub: it runs as user ${uid}, this process as ${ownUid()}`;
  throw new CudaIpcError("UNTRUSTED_PEER", message);
}
