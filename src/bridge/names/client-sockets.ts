/**
 * The sockets of one client of NATS. WHY: it forgets a socket whose server accepts it and then says
 * nothing, such as one that stands still or is none of NATS. As long as such a socket is open, the
 * process cannot end.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";

/** Whose client runs now. Node passes it on to all that the client begins. */
const running = new AsyncLocalStorage<ClientSockets>();

// Node tells here of each socket that something in this process connects.
subscribe("net.client.socket", (message) => {
  running.getStore()?.add((message as { readonly socket: Socket }).socket);
});

export class ClientSockets {
  readonly #open = new Set<Socket>();
  #isClosed = false;

  /** Begins something whose sockets are counted among these, also those that it makes later. */
  run<T>(begin: () => T): T {
    return running.run(this, begin);
  }

  /** A client uses one socket at a time, so it has forgotten the earlier ones that are silent. */
  add(added: Socket): void {
    for (const socket of this.#open) {
      if (socket.bytesRead === 0) socket.destroy();
      // WHY not by a listener: the client removes all of them.
      if (socket.destroyed) this.#open.delete(socket);
    }
    // Later, because Node has not begun to connect it, and would open it again.
    if (this.#isClosed) setImmediate(() => added.destroy());
    else this.#open.add(added);
  }

  /** Closes all that are left, and those that the client still makes. */
  close(): void {
    this.#isClosed = true;
    for (const socket of this.#open) socket.destroy();
    this.#open.clear();
  }
}
