/**
 * A socket that serves other processes of the same user without a hub. It accepts clients and
 * passes their requests to a `PeerService`. It refuses clients of other users and clients beyond
 * the limit, and disconnects silent ones.
 */
import { CudaIpcError, messageOf } from "../base/errors.js";
import { defaults, limits } from "../base/limits.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { FdWatch } from "../os/fd-watch.js";
import { closeFds } from "../os/foreign-fd.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { PacketChannel } from "../os/packet-channel.js";
import { ownUid } from "../os/runtime-folder.js";
import type { Packet, PeerCredentials, SeqpacketSocket } from "../os/seqpacket.js";
import { SeqpacketListener } from "../os/seqpacket-listener.js";
import { removeStaleSocket, SocketFile } from "../os/socket-file.js";
import { passDescriptors } from "../os/socket-message.js";
import { encodeMessage } from "../wire/codec.js";
import { PEER_VERSION, type PeerMessage, type Refusal } from "../wire/peer-messages.js";

export interface PeerService {
  /** Whether the socket and its clients keep this process alive. */
  readonly referenced: boolean;
  onClient?(client: PeerClient): void;
  /**
   * Handles one whole request within the size limit. No request needs descriptors, so received
   * ones are closed before this call. If it throws, the client is sent the error.
   */
  onRequest(client: PeerClient, bytes: Uint8Array): void;
  onEnd?(client: PeerClient): void;
}

/** Pause before the next accept if this process has no descriptors left. */
const ACCEPT_PAUSE_MS = 100;

const REFUSAL_LENGTH_MAX = 1024;

export class PeerClient {
  readonly credentials: PeerCredentials;
  readonly socket: SeqpacketSocket;
  readonly #channel: PacketChannel;
  readonly #silence: NodeJS.Timeout;
  readonly #onEnd: (client: PeerClient) => void;

  /** Takes ownership of the socket. */
  constructor(
    socket: SeqpacketSocket,
    credentials: PeerCredentials,
    events: {
      onRequest(client: PeerClient, packet: Packet): void;
      onEnd(client: PeerClient): void;
    },
  ) {
    this.credentials = credentials;
    this.socket = socket;
    this.#onEnd = events.onEnd;
    this.#channel = new PacketChannel(socket, {
      onPacket: (packet) => {
        this.allowSilence();
        events.onRequest(this, packet);
      },
      onEnd: () => {
        this.allowSilence();
        events.onEnd(this);
      },
    });
    this.#silence = setTimeout(() => {
      const found = `it sent nothing for ${defaults.peerSilenceMs} ms`;
      const message = `Cannot serve process ${credentials.pid}: ${found}`;
      this.refuse(new CudaIpcError("TIMEOUT", message));
    }, defaults.peerSilenceMs);
    this.#silence.unref();
  }

  get open(): boolean {
    return this.#channel.open;
  }

  /**
   * Sends a message. The caller keeps the descriptors. Does nothing if the client has disconnected.
   */
  send(message: PeerMessage, fds: readonly OwnedFd[] = []): void {
    try {
      this.#channel.send(encodeMessage(message), fds);
    } catch (error) {
      if (
        !(error instanceof CudaIpcError && (error.code === "PEER_GONE" || error.code === "CLOSED"))
      )
        throw error;
    }
  }

  /** Sends the error if the client reads, and ends the connection. Calls `onEnd`. */
  refuse(error: unknown): void {
    try {
      if (this.open) this.send(refusalOf(error));
    } catch {
      // The client could not be told.
    } finally {
      this.close();
      this.#onEnd(this);
    }
  }

  /** Lets the client stay silent from now on. */
  allowSilence(): void {
    clearTimeout(this.#silence);
  }

  setReferenced(referenced: boolean): void {
    this.#channel.setReferenced(referenced);
  }

  /** Closes the connection and calls no event handler. */
  close(): void {
    this.allowSilence();
    this.#channel.close();
  }
}

export class PeerListener {
  readonly path: string;
  readonly #service: PeerService;
  readonly #listener: SeqpacketListener;
  readonly #file: SocketFile;
  readonly #watch: FdWatch;
  readonly #clients = new Set<PeerClient>();
  #pause: NodeJS.Timeout | undefined;
  #referenced: boolean;
  #open = true;

  private constructor(path: string, service: PeerService, listener: SeqpacketListener) {
    this.path = path;
    this.#service = service;
    this.#listener = listener;
    this.#referenced = service.referenced;
    this.#file = new SocketFile(path);
    this.#watch = new FdWatch(listener.fd, () => this.#acceptAll());
    this.#watch.setReferenced(service.referenced);
  }

  /**
   * Listens at a path where no file exists. Only this user can connect. `close` removes the socket
   * file.
   */
  static listen(path: string, service: PeerService): PeerListener {
    return acquireIn((scope) => {
      const listener = scope.own(SeqpacketListener.listen(path), (listener) => listener.close());
      scope.defer(() => removeStaleSocket(path));
      passDescriptors(listener.fd, false);
      return new PeerListener(path, service, listener);
    });
  }

  get clientCount(): number {
    return this.#clients.size;
  }

  setReferenced(referenced: boolean): void {
    this.#referenced = referenced;
    this.#watch.setReferenced(referenced);
    for (const client of this.#clients) client.setReferenced(referenced);
  }

  /** Removes the socket file. Call it if the process ends without `close`. */
  removeFile(): void {
    this.#file.remove();
  }

  /** Stops listening. Sends `farewell` to all clients, accepted or waiting. */
  close(farewell: CudaIpcError): void {
    if (!this.#open) return;
    this.#open = false;
    clearTimeout(this.#pause);
    const clients = [...this.#clients];
    this.#clients.clear();
    releaseAll([
      () => this.#file.remove(),
      () => this.#watch.close(),
      () => this.#sendAway(farewell),
      () => this.#listener.close(),
      ...clients.map((client) => () => client.refuse(farewell)),
    ]);
  }

  #acceptAll(): void {
    try {
      for (
        let socket = this.#listener.tryAccept();
        socket !== undefined;
        socket = this.#listener.tryAccept()
      ) {
        this.#serve(socket);
        if (!this.#open) return;
      }
    } catch {
      // No caller would catch an error here. The clients stay in the kernel's queue until the
      // next attempt.
      this.#watch.pause();
      this.#pause = setTimeout(() => this.#watch.resume(), ACCEPT_PAUSE_MS);
      if (!this.#referenced) this.#pause.unref();
    }
  }

  #serve(socket: SeqpacketSocket): void {
    let client: PeerClient;
    try {
      const credentials = socket.peerCredentials();
      this.#checkAdmissible(credentials.uid);
      client = new PeerClient(socket, credentials, {
        onRequest: (client, packet) => this.#onRequest(client, packet),
        onEnd: (client) => this.#onEnd(client),
      });
    } catch (error) {
      turnAway(socket, error);
      return;
    }
    client.setReferenced(this.#referenced);
    this.#clients.add(client);
    this.#attempt(client, () => this.#service.onClient?.(client));
  }

  #checkAdmissible(uid: number): void {
    if (uid !== ownUid()) {
      const message = `Cannot serve user ${uid} at ${this.path}: only user ${ownUid()} is served`;
      throw new CudaIpcError("UNTRUSTED_PEER", message);
    }
    if (this.#clients.size >= limits.peerClientsMax) {
      const found = `${this.#clients.size} are connected, the limit (peerClientsMax)`;
      throw new CudaIpcError(
        "LIMIT_EXCEEDED",
        `Cannot serve another client at ${this.path}: ${found}`,
      );
    }
  }

  #onRequest(client: PeerClient, { bytes, fds, damage }: Packet): void {
    this.#attempt(client, () => {
      closeFds(fds);
      if (damage !== undefined) throw damage;
      if (bytes.byteLength > limits.peerRequestBytesMax) {
        const limit = `the limit (peerRequestBytesMax) is ${limits.peerRequestBytesMax}`;
        const found = `it has ${bytes.byteLength} bytes, ${limit}`;
        throw new CudaIpcError(
          "MESSAGE_TOO_LARGE",
          `Cannot accept a request at ${this.path}: ${found}`,
        );
      }
      this.#service.onRequest(client, bytes);
    });
  }

  /** If the work throws, sends the error to the client and disconnects this client alone. */
  #attempt(client: PeerClient, work: () => void): void {
    try {
      work();
    } catch (error) {
      client.refuse(error);
    }
  }

  #onEnd(client: PeerClient): void {
    if (!this.#clients.delete(client)) return;
    client.close();
    this.#service.onEnd?.(client);
  }

  /** Refuses clients that have connected but are not accepted yet. */
  #sendAway(farewell: CudaIpcError): void {
    for (
      let socket = this.#listener.tryAccept();
      socket !== undefined;
      socket = this.#listener.tryAccept()
    ) {
      turnAway(socket, farewell);
    }
  }
}

function turnAway(socket: SeqpacketSocket, error: unknown): void {
  try {
    socket.trySend(encodeMessage(refusalOf(error)));
  } catch {
    // The client has disconnected already.
  } finally {
    socket.close();
  }
}

function refusalOf(error: unknown): Refusal {
  const code = error instanceof CudaIpcError ? error.code : "SYSTEM_ERROR";
  const message = messageOf(error).slice(0, REFUSAL_LENGTH_MAX);
  return { v: PEER_VERSION, ok: false, error: { code, message } };
}
