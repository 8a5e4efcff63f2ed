/** Offers memory on a socket of a given name, without a hub: each that connects gets it, and says when it has done with it. */
import { resolve } from "node:path";
import { checkInteger } from "../base/bytes.js";
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { defaults } from "../base/limits.js";
import { checkOneOf } from "../base/one-of.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import type { DeviceArray } from "../gpu/device-array.js";
import type { DeviceBuffer } from "../gpu/device-buffer.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { SocketClaim } from "../os/socket-claim.js";
import { decodePeerMessage } from "../wire/codec.js";
import { acknowledgeSchema, PEER_VERSION } from "../wire/peer-messages.js";
import { Acknowledgements } from "./acknowledgements.js";
import { bufferOf, describe, exportFor } from "./exported-memory.js";
import { type PeerClient, PeerListener } from "./peer-listener.js";
import type { ShareOptions } from "./share.js";

interface Held {
  readonly claim: SocketClaim;
  readonly memory: OwnedFd;
  readonly listener: PeerListener;
}

export class Offer {
  readonly path: string;
  readonly #held: Held;
  readonly #acknowledgements: Acknowledgements;
  #open = true;

  /** Made by `offer`; takes over what is held. */
  constructor(path: string, held: Held, acknowledgements: Acknowledgements) {
    this.path = path;
    this.#held = held;
    this.#acknowledgements = acknowledgements;
  }

  /** How many consumers have acknowledged so far. */
  get acknowledgedCount(): number {
    return this.#acknowledgements.count;
  }

  /**
   * Resolves once this many consumers have said that they have done with it; one that dies before is not among them.
   * @throws TIMEOUT, ABORTED, CLOSED
   */
  async acknowledged(count = 1, options: WaitOptions = {}): Promise<void> {
    checkInteger("count", count, 1);
    const what = `be acknowledged by ${count} at ${this.path}`;
    const why = () => `${this.acknowledgedCount} have done so`;
    await this.#acknowledgements.reach(count, new Deadline(what, options, defaults.peerTimeoutMs, why));
  }

  /** Offers it no longer. Who has it keeps it; who is connected still finds that this side has hung up. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    const ended = new CudaIpcError("CLOSED", `Cannot be acknowledged at ${this.path}: the offer was closed`);
    const farewell = `Cannot receive what was offered at ${this.path}: it is offered no longer`;
    releaseAll([
      () => this.#held.listener.close(new CudaIpcError("STALE_HANDLE", farewell)),
      () => this.#held.claim.release(),
      () => this.#held.memory.close(),
      () => this.#acknowledgements.end(ended),
    ]);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }
}

/**
 * Serves an array or a buffer that was allocated in this process to every process of this user that connects to the path, until
 * the result is closed, which keeps this process from ending.
 * @throws NAME_TAKEN where another process offers something there, FILE_EXISTS, SOCKET_PATH_TOO_LONG, UNSUPPORTED
 * @example
 * await using offered = offer("/tmp/frames.sock", array);
 * await offered.acknowledged(1, { timeoutMs: 30_000 });
 */
export function offer(socketPath: string, source: DeviceArray | DeviceBuffer, options: ShareOptions = {}): Offer {
  const access = checkOneOf("access", options.access ?? "read-write", ["read", "read-write"]);
  const path = resolve(socketPath);
  const { descriptor } = describe(source);
  const acknowledgements = new Acknowledgements();
  const acknowledgedBy = new WeakSet<PeerClient>();
  return acquireIn((scope) => {
    const claim = SocketClaim.tryMake(path);
    if (claim === undefined)
      throw new CudaIpcError("NAME_TAKEN", `Cannot offer memory at ${path}: another offers there`);
    scope.own(claim, (claim) => claim.release());
    const memory = scope.own(exportFor(bufferOf(source), access), (fd) => fd.close());
    const listener = PeerListener.listen(path, {
      referenced: true,
      onClient: (client) => {
        client.allowSilence();
        client.send({ v: PEER_VERSION, ok: true, access, descriptor }, [memory]);
      },
      onRequest: (client, bytes) => {
        decodePeerMessage("an acknowledgement", acknowledgeSchema, bytes);
        // WHY once: the count is of consumers and not of messages.
        if (acknowledgedBy.has(client)) return;
        acknowledgedBy.add(client);
        acknowledgements.add();
      },
    });
    return new Offer(path, { claim, memory, listener }, acknowledgements);
  });
}
