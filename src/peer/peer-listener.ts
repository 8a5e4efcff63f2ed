/**
 * A socket on which this process serves others of the same user, without a hub: accepts them, hands on what they send, and hangs
 * up on those that are too many, of another user, or silent. What is served is the concern of who listens.
 */
import { CudaIpcError } from "../base/errors.js";
import { defaults, limits } from "../base/limits.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { FdWatch } from "../os/fd-watch.js";
import { restrictToOwner } from "../os/file-calls.js";
import { closeForeign } from "../os/foreign-fd.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { PacketChannel } from "../os/packet-channel.js";
import { passDescriptors } from "../os/pass-descriptors.js";
import { ownUid } from "../os/runtime-folder.js";
import { type Packet, type PeerCredentials, SeqpacketListener, type SeqpacketSocket } from "../os/seqpacket.js";
import { removeStaleSocket, SocketFile } from "../os/socket-file.js";
import { encodeMessage } from "../wire/codec.js";
import type { PeerMessage } from "../wire/peer-messages.js";
import { refusalOf } from "./refusal.js";

export interface PeerService {
  /** Whether the socket and its clients keep this process from ending. */
  readonly referenced: boolean;
  onClient?(client: PeerClient): void;
  /** A whole message within the limit; its descriptors were closed, since none are ever asked for. What it throws is told to the client. */
  onRequest(client: PeerClient, bytes: Uint8Array): void;
  onEnd?(client: PeerClient): void;
}

/** How long to leave clients waiting where this process has no descriptors for them. */
const ACCEPT_PAUSE_MS = 100;

export class PeerClient {
  readonly credentials: PeerCredentials;
  readonly socket: SeqpacketSocket;
  readonly #channel: PacketChannel;
  readonly #silence: NodeJS.Timeout;

  /** Takes over the socket. */
  constructor(
    socket: SeqpacketSocket,
    credentials: PeerCredentials,
    events: { onRequest(client: PeerClient, packet: Packet): void; onEnd(client: PeerClient): void },
  ) {
    this.credentials = credentials;
    this.socket = socket;
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
      const message = `Cannot serve process ${credentials.pid}: it said nothing for ${defaults.peerSilenceMs} ms`;
      try {
        this.refuse(new CudaIpcError("TIMEOUT", message));
      } catch {
        // It could not be told: `refuse` has hung up on it, which tells it enough.
      }
      events.onEnd(this);
    }, defaults.peerSilenceMs);
    this.#silence.unref();
  }

  get open(): boolean {
    return this.#channel.open;
  }

  /** The descriptors stay the caller's. A client that has hung up is not told: its end is. */
  send(message: PeerMessage, fds: readonly OwnedFd[] = []): void {
    try {
      this.#channel.send(encodeMessage(message), fds);
    } catch (error) {
      if (!(error instanceof CudaIpcError && (error.code === "PEER_GONE" || error.code === "CLOSED"))) throw error;
    }
  }

  /** Says why not, and hangs up. */
  refuse(error: unknown): void {
    try {
      if (this.open) this.send(refusalOf(error));
    } finally {
      this.close();
    }
  }

  /** From here on it need not say anything. */
  allowSilence(): void {
    clearTimeout(this.#silence);
  }

  setReferenced(referenced: boolean): void {
    this.#channel.setReferenced(referenced);
  }

  /** Hangs up, without an event. */
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

  /** Listens at a path where no file is; the file is for this user alone, and is removed at the end. */
  static listen(path: string, service: PeerService): PeerListener {
    return acquireIn((scope) => {
      const listener = scope.own(SeqpacketListener.listen(path), (listener) => listener.close());
      scope.defer(() => removeStaleSocket(path));
      restrictToOwner(path);
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

  /** Removes the socket's file; what happens when the process ends without `close`. */
  removeFile(): void {
    this.#file.remove();
  }

  /** Ends it. Those who are connected or about to be are told `farewell`. */
  close(farewell: CudaIpcError): void {
    if (!this.#open) return;
    this.#open = false;
    clearTimeout(this.#pause);
    releaseAll([
      () => this.#file.remove(),
      () => this.#watch.close(),
      () => this.#sendAway(farewell),
      () => this.#listener.close(),
      ...[...this.#clients].map((client) => () => client.refuse(farewell)),
      () => this.#clients.clear(),
    ]);
  }

  #acceptAll(): void {
    try {
      for (let socket = this.#listener.tryAccept(); socket !== undefined; socket = this.#listener.tryAccept()) {
        this.#serve(socket);
        if (!this.#open) return;
      }
    } catch {
      // WHY not thrown: there is nobody to throw to, and the clients stay in the kernel's queue until there is room.
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
      const message = `Cannot serve user ${uid} at ${this.path}: it is of user ${ownUid()}`;
      throw new CudaIpcError("UNTRUSTED_PEER", message);
    }
    if (this.#clients.size >= limits.peerClientsMax) {
      const found = `${this.#clients.size} are connected, the limit (peerClientsMax)`;
      throw new CudaIpcError("LIMIT_EXCEEDED", `Cannot serve another client at ${this.path}: ${found}`);
    }
  }

  #onRequest(client: PeerClient, { bytes, fds, damage }: Packet): void {
    this.#attempt(client, () => {
      releaseAll(fds.map((fd) => () => closeForeign(fd)));
      if (damage !== undefined) throw damage;
      if (bytes.byteLength > limits.peerRequestBytesMax) {
        const found = `${bytes.byteLength} bytes, the limit (peerRequestBytesMax) is ${limits.peerRequestBytesMax}`;
        throw new CudaIpcError("MESSAGE_TOO_LARGE", `Cannot take a request at ${this.path}: ${found}`);
      }
      this.#service.onRequest(client, bytes);
    });
  }

  /** A client that cannot be served is told and sent away; the others do not notice. */
  #attempt(client: PeerClient, work: () => void): void {
    try {
      work();
    } catch (error) {
      try {
        client.refuse(error);
      } catch {
        // It could not even be told: `refuse` has hung up on it, which tells it enough.
      }
      this.#onEnd(client);
    }
  }

  #onEnd(client: PeerClient): void {
    if (!this.#clients.delete(client)) return;
    client.close();
    this.#service.onEnd?.(client);
  }

  /** Those who have connected and were not accepted yet. */
  #sendAway(farewell: CudaIpcError): void {
    for (let socket = this.#listener.tryAccept(); socket !== undefined; socket = this.#listener.tryAccept()) {
      turnAway(socket, farewell);
    }
  }
}

function turnAway(socket: SeqpacketSocket, error: unknown): void {
  try {
    socket.trySend(encodeMessage(refusalOf(error)));
  } catch {
    // It has hung up already: there is nobody to be told.
  } finally {
    socket.close();
  }
}
