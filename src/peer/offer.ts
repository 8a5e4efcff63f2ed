/**
 * Offers memory on a socket, without a hub. Each process that connects gets the memory, and can
 * acknowledge it when it has finished with it.
 */
import { resolve } from "node:path";
import { checkInteger } from "../base/bytes.js";
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { defaults } from "../base/limits.js";
import { aString, oneOf, optionsOf } from "../base/option-checks.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { checkWait } from "../base/wait-checks.js";
import type { DeviceArray } from "../gpu/arrays/device-array.js";
import type { DeviceBuffer } from "../gpu/memory/device-buffer.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { SocketClaim } from "../os/socket-file.js";
import { decodePeerMessage } from "../wire/codec.js";
import { acknowledgeSchema, PEER_VERSION } from "../wire/peer-messages.js";
import { type PeerClient, PeerListener } from "./peer-listener.js";
import { bufferOf, describe, type ShareOptions } from "./share.js";

const checkOffer = optionsOf<ShareOptions>("offer()", { access: oneOf("read", "read-write") });

interface Waiter {
  readonly count: number;
  resolve(): void;
  reject(reason: CudaIpcError): void;
}

/** Counts acknowledgements and wakes each waiter that has enough of them. */
class Acknowledgements {
  readonly #waiters = new Set<Waiter>();
  #count = 0;
  #ended: CudaIpcError | undefined;

  get count(): number {
    return this.#count;
  }

  add(): void {
    this.#count += 1;
    for (const waiter of this.#waiters) if (this.#count >= waiter.count) waiter.resolve();
  }

  /**
   * Resolves when `count` acknowledgements have arrived.
   * @throws TIMEOUT, ABORTED, or the reason given to `end`
   */
  async reach(count: number, deadline: Deadline): Promise<void> {
    if (this.#count >= count) return;
    if (this.#ended !== undefined) throw this.#ended;
    deadline.check();
    let waiter: Waiter | undefined;
    const reached = new Promise<void>((resolve, reject) => {
      waiter = { count, resolve, reject };
      this.#waiters.add(waiter);
    });
    try {
      await deadline.race(reached, () => {});
    } finally {
      if (waiter !== undefined) this.#waiters.delete(waiter);
    }
  }

  /** Rejects all waiters, because no more acknowledgements will arrive. */
  end(reason: CudaIpcError): void {
    this.#ended ??= reason;
    for (const waiter of this.#waiters) waiter.reject(reason);
  }
}

interface OfferParts {
  readonly claim: SocketClaim;
  readonly memory: OwnedFd;
  readonly listener: PeerListener;
}

export class Offer {
  readonly path: string;
  readonly #parts: OfferParts;
  readonly #acknowledgements: Acknowledgements;
  #open = true;

  /** Created by `offer`. Takes ownership of the parts. */
  constructor(path: string, parts: OfferParts, acknowledgements: Acknowledgements) {
    this.path = path;
    this.#parts = parts;
    this.#acknowledgements = acknowledgements;
  }

  /** How many consumers have acknowledged so far. */
  get acknowledgedCount(): number {
    return this.#acknowledgements.count;
  }

  /**
   * Resolves when `count` consumers have acknowledged. A consumer that dies first does not count.
   * @throws TIMEOUT, ABORTED, CLOSED
   */
  async acknowledged(count = 1, options: WaitOptions = {}): Promise<void> {
    checkInteger("count", count, 1);
    checkWait(options);
    const wanted = count === 1 ? "1 acknowledgement" : `${count} acknowledgements`;
    const what = `get ${wanted} at ${this.path}`;
    const why = () => `${this.acknowledgedCount} arrived`;
    await this.#acknowledgements.reach(
      count,
      new Deadline(what, options, defaults.peerTimeoutMs, why),
    );
  }

  /**
   * Withdraws the offer. Consumers that have the memory keep it. Their connections to this
   * process are closed.
   */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    const ended = new CudaIpcError(
      "CLOSED",
      `Cannot get acknowledgements at ${this.path}: the offer was closed`,
    );
    const farewell = `Cannot receive the offer at ${this.path}: the producer withdrew it`;
    releaseAll([
      () => this.#parts.listener.close(new CudaIpcError("STALE_HANDLE", farewell)),
      () => this.#parts.claim.release(),
      () => this.#parts.memory.close(),
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
 * Serves an array or a buffer of this process to every process of this user that connects to
 * the path. The offer keeps this process alive until you close it.
 * @throws NAME_TAKEN if another process has an offer at the path
 * @throws UNSUPPORTED if this process did not allocate the memory
 * @throws FILE_EXISTS, SOCKET_PATH_TOO_LONG
 * @example
 * await using offered = offer("/tmp/frames.sock", array);
 * await offered.acknowledged(1, { timeoutMs: 30_000 });
 */
export function offer(
  socketPath: string,
  source: DeviceArray | DeviceBuffer,
  options: ShareOptions = {},
): Offer {
  aString("socketPath", socketPath);
  checkOffer(options);
  const { access = "read-write" } = options;
  const path = resolve(socketPath);
  const { descriptor } = describe(source);
  const acknowledgements = new Acknowledgements();
  const acknowledgedBy = new WeakSet<PeerClient>();
  return acquireIn((scope) => {
    const claim = SocketClaim.tryMake(path);
    if (claim === undefined)
      throw new CudaIpcError(
        "NAME_TAKEN",
        `Cannot offer memory at ${path}: another process has an offer there`,
      );
    scope.own(claim, (claim) => claim.release());
    const memory = scope.own(bufferOf(source).exportFd(access), (fd) => fd.close());
    const listener = PeerListener.listen(path, {
      referenced: true,
      onClient: (client) => {
        client.allowSilence();
        client.send({ v: PEER_VERSION, ok: true, access, descriptor }, [memory]);
      },
      onRequest: (client, bytes) => {
        decodePeerMessage("an acknowledgement", acknowledgeSchema, bytes);
        // Counts consumers, not messages.
        if (acknowledgedBy.has(client)) return;
        acknowledgedBy.add(client);
        acknowledgements.add();
      },
    });
    return new Offer(path, { claim, memory, listener }, acknowledgements);
  });
}
