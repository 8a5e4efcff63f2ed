/**
 * Sends file descriptors to other processes of this user. A client gets the descriptors that are
 * registered under the token it sends. Each thread runs one server while anything is registered.
 * The server does not keep the process alive.
 */
import { randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { CudaIpcError, SystemError } from "../base/errors.js";
import type { GrowingBuffer } from "../gpu/memory/growing-buffer.js";
import { closeFds } from "../os/foreign-fd.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { identityOf } from "../os/process-identity.js";
import { prepareRuntimeFolder, runtimeSocketPath } from "../os/runtime-folder.js";
import { SeqpacketSocket } from "../os/seqpacket.js";
import { SocketFile } from "../os/socket-file.js";
import { fromNodeError } from "../os/system-error.js";
import { decodePeerMessage } from "../wire/codec.js";
import { fetchSchema, PEER_VERSION } from "../wire/peer-messages.js";
import { type PeerClient, PeerListener } from "./peer-listener.js";

const TOKEN_BYTES = 16;
const SOCKET_NAME = /^peer-(\d{1,10})-[0-9a-f]+\.sock$/;

export interface FdRegistration {
  /** The address of the server and the token to send. */
  readonly fds: { readonly socket: string; readonly token: string };
  /** Stops sending these descriptors. Processes that have received them keep them. */
  withdraw(): void;
}

/** Owns the descriptors until the registration is withdrawn, unless it throws. */
export function registerFds(fds: readonly OwnedFd[]): FdRegistration {
  return register({ fds });
}

/**
 * Sends the pieces that growing memory has at the time of a request. The caller keeps the memory,
 * and withdraws the registration before closing it.
 */
export function registerGrowing(memory: GrowingBuffer): FdRegistration {
  return register({ fds: [], memory });
}

interface Registered {
  /** Closed by `withdraw`. */
  readonly fds: readonly OwnedFd[];
  readonly memory?: GrowingBuffer;
}

function register(registered: Registered): FdRegistration {
  running ??= FdServer.start();
  return running.register(registered);
}

let running: FdServer | undefined;

class FdServer {
  readonly #listener: PeerListener;
  readonly #registered = new Map<string, Registered>();
  readonly #onExit = () => this.#listener.removeFile();

  private constructor(path: string) {
    this.#listener = PeerListener.listen(path, {
      referenced: false,
      onRequest: (client, bytes) => this.#answer(client, bytes),
    });
    process.once("exit", this.#onExit);
  }

  static start(): FdServer {
    const path = runtimeSocketPath(`peer-${process.pid}-${randomBytes(6).toString("hex")}.sock`);
    prepareRuntimeFolder(path);
    removeLeftOver(dirname(path));
    return new FdServer(path);
  }

  register(registered: Registered): FdRegistration {
    const token = randomBytes(TOKEN_BYTES).toString("hex");
    this.#registered.set(token, registered);
    return { fds: { socket: this.#listener.path, token }, withdraw: () => this.#withdraw(token) };
  }

  #withdraw(token: string): void {
    const registered = this.#registered.get(token);
    if (registered === undefined) return;
    this.#registered.delete(token);
    try {
      if (this.#registered.size === 0) this.#close();
    } finally {
      closeFds(registered.fds);
    }
  }

  #close(): void {
    running = undefined;
    process.off("exit", this.#onExit);
    this.#listener.close(withdrawn());
  }

  #answer(client: PeerClient, bytes: Uint8Array): void {
    const request = decodePeerMessage("a request for file descriptors", fetchSchema, bytes);
    const registered = this.#registered.get(request.token);
    if (registered === undefined) throw withdrawn();
    const { fds, memory } = registered;
    if (memory === undefined) {
      if (request.op !== "fetch")
        throw new CudaIpcError("WRONG_KIND", "Cannot fetch pieces: the shared memory cannot grow");
      client.send({ v: PEER_VERSION, ok: true }, fds);
      return;
    }
    if (!memory.open) throw withdrawn();
    const grown = memory.exportGrowth(
      request.op === "grow" ? Math.min(request.from, memory.pieceCount) : 0,
    );
    try {
      client.send({ v: PEER_VERSION, ok: true, growth: grown.growth }, grown.fds);
    } finally {
      closeFds(grown.fds);
    }
  }
}

function withdrawn(): CudaIpcError {
  const found = `process ${process.pid} never shared it or has stopped sharing it`;
  return new CudaIpcError("STALE_HANDLE", `Cannot fetch the shared object: ${found}`);
}

/**
 * Removes sockets of processes that were killed. A missing pid alone does not prove that, because
 * the process may be in another PID namespace.
 */
function removeLeftOver(folder: string): void {
  for (const name of namesIn(folder)) {
    const pid = SOCKET_NAME.exec(name)?.[1];
    if (pid === undefined || identityOf(Number(pid)) !== undefined) continue;
    const path = join(folder, basename(name));
    const file = new SocketFile(path);
    if (nobodyListens(path)) file.remove();
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    throw fromNodeError(`list ${folder}`, error);
  }
}

function nobodyListens(path: string): boolean {
  try {
    SeqpacketSocket.connect(path).close();
    return false;
  } catch (error) {
    return error instanceof SystemError && error.errnoName === "ECONNREFUSED";
  }
}
