/** The consumer's side of an offer: waits until the producer is there, maps what it offers, and says when it has done with it. */
import { resolve } from "node:path";
import { Deadline } from "../base/deadline.js";
import { defaults } from "../base/limits.js";
import { acquireInAsync, releaseAll } from "../base/scope.js";
import type { DeviceArray } from "../gpu/device-array.js";
import { decodePeerMessage } from "../wire/codec.js";
import { offeredSchema, PEER_VERSION } from "../wire/peer-messages.js";
import { awaitListener } from "./await-listener.js";
import { arrayOn, mapArrived } from "./map-arrived.js";
import { checkAccess, checkGranted, type OpenSharedOptions } from "./open-shared.js";
import { closeFds, type PeerLink } from "./peer-link.js";
import { refusedBy } from "./refusal.js";

export class ReceivedOffer {
  /** What was offered; of a buffer its bytes. Usable until `close()`, also when the producer has ended. */
  readonly array: DeviceArray;
  readonly #link: PeerLink;
  #acknowledged = false;

  /** Made by `receiveOffer`; takes over both. */
  constructor(array: DeviceArray, link: PeerLink) {
    this.array = array;
    this.#link = link;
    // WHY: nothing is waited for any more, and what is mapped keeps no process alive either.
    link.setReferenced(false);
  }

  /**
   * Tells the producer that this consumer has done with it, once; the array stays usable.
   * @throws PEER_GONE where the producer has ended or closed its offer, CLOSED
   */
  acknowledge(): void {
    if (this.#acknowledged) return;
    this.#link.send({ v: PEER_VERSION, op: "acknowledge" });
    this.#acknowledged = true;
  }

  close(): void {
    releaseAll([() => this.array.close(), () => this.#link.close()]);
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/**
 * What is offered at the path, mapped without a copy. Waits for a producer that is not there yet, within the time limit.
 * @throws TIMEOUT where there is no socket, PEER_GONE where there is one that nobody listens on any more; READ_ONLY,
 * UNTRUSTED_PEER, INVALID_DESCRIPTOR, DEVICE_NOT_FOUND, ABORTED
 * @example
 * using received = await receiveOffer("/tmp/frames.sock", { timeoutMs: 30_000 });
 * console.log(await received.array.read());
 * received.acknowledge();
 */
export async function receiveOffer(socketPath: string, options: OpenSharedOptions = {}): Promise<ReceivedOffer> {
  const access = checkAccess(options);
  const path = resolve(socketPath);
  const deadline = new Deadline(`receive what is offered at ${path}`, options, defaults.peerTimeoutMs);
  return receive(path, deadline, { device: options.device, access });
}

async function receive(
  path: string,
  deadline: Deadline,
  options: Parameters<typeof mapArrived>[3],
): Promise<ReceivedOffer> {
  return acquireInAsync(async (scope) => {
    const link = scope.own(await awaitListener(path, deadline), (link) => link.close());
    const { bytes, fds } = await link.receive(deadline);
    try {
      const offered = decodePeerMessage(`the offer at ${path}`, offeredSchema, bytes);
      if (!offered.ok) throw refusedBy(offered);
      const { descriptor } = offered;
      checkGranted(offered.access, options.access);
      const buffer = mapArrived(`the offer at ${path}`, descriptor, fds, options);
      return new ReceivedOffer(arrayOn(buffer, descriptor), link);
    } finally {
      closeFds(fds);
    }
  });
}
