/** The hub as one of its child processes sees it: orders come one after the other. */
import { hasCode } from "../../base/errors.js";
import { POLLIN, POLLOUT, pollFd } from "../../os/file-calls.js";
import { OwnedFd } from "../../os/owned-fd.js";
import { type Packet, SeqpacketSocket } from "../../os/seqpacket.js";
import { isInFlightLimit } from "../../os/socket-message.js";

const HUB_FD = 3;
const FOREVER = -1;
/** Between attempts to send descriptors while this user has too many in flight. */
const IN_FLIGHT_PAUSE_MS = 10;

export class HubLine {
  readonly #hub = new SeqpacketSocket(OwnedFd.adopt(HUB_FD));

  /**
   * Takes orders until the hub hangs up. Then the process ends.
   * WHY no event loop: the hub waits for each answer, and this is the fastest way to one.
   */
  serve(obey: (order: Packet) => void): never {
    // The hub decides when this process ends. A terminal and a service manager signal both.
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
    this.send(Buffer.from("ready"));
    for (;;) {
      const order = this.#hub.tryReceive();
      if (order === undefined) pollFd(this.#hub.fd, POLLIN, FOREVER);
      else if (order === "end") process.exit();
      else obey(order);
    }
  }

  /**
   * May block: the hub reads everything that its children say, and nobody else waits. Does nothing
   * if the hub is gone. Its last orders are still to be carried out.
   */
  send(bytes: Uint8Array, fds: readonly OwnedFd[] = []): void {
    for (;;) {
      try {
        if (this.#hub.trySend(bytes, fds)) return;
        pollFd(this.#hub.fd, POLLOUT, FOREVER);
      } catch (error) {
        if (hasCode(error, "PEER_GONE")) return;
        if (!isInFlightLimit(error)) throw error;
        pollFd(this.#hub.fd, 0, IN_FLIGHT_PAUSE_MS);
      }
    }
  }
}
