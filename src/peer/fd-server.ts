/**
 * Hands out file descriptors to other processes of this user: whoever knows the token that descriptors are registered under
 * gets them. One server in a process (in each of its threads), there while anything is registered, and no reason to stay alive.
 */
import { randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { CudaIpcError, SystemError } from "../base/errors.js";
import type { GrowingBuffer } from "../gpu/growing-memory.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { identityOf } from "../os/process-identity.js";
import { prepareRuntimeFolder, runtimeSocketPath } from "../os/runtime-folder.js";
import { SeqpacketSocket } from "../os/seqpacket.js";
import { SocketFile } from "../os/socket-file.js";
import { fromNodeError } from "../os/system-error.js";
import { decodePeerMessage } from "../wire/codec.js";
import { fetchSchema, PEER_VERSION } from "../wire/peer-messages.js";
import { closeFds } from "./peer-link.js";
import { type PeerClient, PeerListener } from "./peer-listener.js";

const TOKEN_BYTES = 16;
const SOCKET_NAME = /^peer-(\d{1,10})-[0-9a-f]+\.sock$/;

export interface FdRegistration {
  /** Where to ask, and with what. */
  readonly fds: { readonly socket: string; readonly token: string };
  /** From here on nobody gets them; who has them keeps them. */
  withdraw(): void;
}

/** Takes over the descriptors, unless it throws, until the registration is withdrawn. */
export function registerFds(fds: readonly OwnedFd[]): FdRegistration {
  return register({ fds });
}

/** Hands out the pieces of memory that grows, as many as there are by then. The memory stays the caller's, who withdraws before closing it. */
export function registerGrowing(memory: GrowingBuffer): FdRegistration {
  return register({ fds: [], memory });
}

interface Registered {
  /** Closed when they are withdrawn. */
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
        throw new CudaIpcError("WRONG_KIND", "Cannot fetch pieces: what is shared does not grow");
      client.send({ v: PEER_VERSION, ok: true }, fds);
      return;
    }
    if (!memory.open) throw withdrawn();
    const grown = memory.exportGrowth(request.op === "grow" ? Math.min(request.from, memory.pieceCount) : 0);
    try {
      client.send({ v: PEER_VERSION, ok: true, growth: grown.growth }, grown.fds);
    } finally {
      closeFds(grown.fds);
    }
  }
}

function withdrawn(): CudaIpcError {
  const found = `process ${process.pid} shares nothing under this token, or no longer`;
  return new CudaIpcError("STALE_HANDLE", `Cannot fetch what was shared: ${found}`);
}

/** Removes sockets of processes that were killed. WHY both questions: a process of another PID namespace only seems to be gone. */
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
    throw fromNodeError(`look into ${folder}`, error);
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
