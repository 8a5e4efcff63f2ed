/** The consumer's side of an offer: waits for the producer, maps the memory and acknowledges it. */
import { resolve } from "node:path";
import { Deadline } from "../base/deadline.js";
import { defaults } from "../base/limits.js";
import { aString, optionsOf } from "../base/option-checks.js";
import { acquireInAsync, releaseAll } from "../base/scope.js";
import type { DeviceArray } from "../gpu/arrays/device-array.js";
import { closeFds } from "../os/foreign-fd.js";
import { decodePeerMessage } from "../wire/codec.js";
import { offeredSchema, PEER_VERSION } from "../wire/peer-messages.js";
import { awaitListener } from "./await-listener.js";
import { arrayOn, mapArrived } from "./map-arrived.js";
import { checkGranted, type OpenSharedOptions, openSharedChecks } from "./open-shared.js";
import { PeerLink, refusedBy } from "./peer-link.js";

const checkReceive = optionsOf<OpenSharedOptions>("receiveOffer()", openSharedChecks);

export class ReceivedOffer {
  /**
   * The offered array. An offered buffer arrives as an array of its bytes. Usable until `close()`,
   * even if the producer has ended.
   */
  readonly array: DeviceArray;
  readonly #link: PeerLink;
  #acknowledged = false;

  /** Created by `receiveOffer`. Takes ownership of both. */
  constructor(array: DeviceArray, link: PeerLink) {
    this.array = array;
    this.#link = link;
    // No reply is expected any more, and mapped memory does not keep a process alive either.
    link.setReferenced(false);
  }

  /**
   * Tells the producer that this consumer has finished with the memory. Later calls do nothing.
   * The array stays usable.
   * @throws PEER_GONE if the producer has ended or closed its offer
   * @throws CLOSED
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
 * Maps the memory that is offered at the path, without a copy. Waits for the producer up to the
 * time limit.
 * @throws TIMEOUT if the path has no socket
 * @throws PEER_GONE if the path has a socket file but its process has ended
 * @throws READ_ONLY, UNTRUSTED_PEER, INVALID_DESCRIPTOR, DEVICE_NOT_FOUND, ABORTED
 * @example
 * using received = await receiveOffer("/tmp/frames.sock", { timeoutMs: 30_000 });
 * console.log(await received.array.read());
 * received.acknowledge();
 */
export async function receiveOffer(
  socketPath: string,
  options: OpenSharedOptions = {},
): Promise<ReceivedOffer> {
  aString("socketPath", socketPath);
  checkReceive(options);
  const { access = "read" } = options;
  const path = resolve(socketPath);
  const deadline = new Deadline(`receive the offer at ${path}`, options, defaults.peerTimeoutMs);
  return receive(path, deadline, { device: options.device, access });
}

async function receive(
  path: string,
  deadline: Deadline,
  options: Parameters<typeof mapArrived>[3],
): Promise<ReceivedOffer> {
  return acquireInAsync(async (scope) => {
    const link = scope.own(
      await awaitListener(path, deadline, () => PeerLink.connect(path)),
      (link) => link.close(),
    );
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
