/**
 * The hub's listening sockets: the current one, earlier ones whose file was removed, as long as
 * clients wait in their backlog, and the twin.
 */
import type { Log } from "../../base/log-events.js";
import { releaseAll } from "../../base/scope.js";
import { FdWatch } from "../../os/fd-watch.js";
import { closeForeign } from "../../os/foreign-fd.js";
import type { SeqpacketListener } from "../../os/seqpacket-listener.js";
import { passDescriptors } from "../../os/socket-message.js";
import { tryHoldTwin } from "../../os/socket-twin.js";
import { codeOf, describeError } from "../hub-log.js";
import type { NewClients } from "./new-clients.js";

const PAUSE_MS = 100;

export class Entrance {
  readonly #newClients: NewClients;
  readonly #log: Log;
  readonly #doors = new Set<Door>();
  readonly #socketPath: string;
  /** Does not listen before `openTwin`. */
  #twin: SeqpacketListener | undefined;
  #listener: SeqpacketListener;
  #timer: NodeJS.Timeout | undefined;
  #open = true;

  /** Takes over the listeners. Lets nobody in before `open`. */
  constructor({ socketPath, listener, twin }: Listeners, newClients: NewClients, log: Log) {
    this.#socketPath = socketPath;
    this.#twin = twin;
    this.#listener = listener;
    this.#newClients = newClients;
    this.#log = log;
  }

  /** The listener at the socket's path. */
  get listener(): SeqpacketListener {
    return this.#listener;
  }

  open(): void {
    this.#openDoor(this.#listener);
  }

  /** Whether this hub has the twin. Takes it if it is free by now. */
  holdTwin(): boolean {
    try {
      this.#twin ??= tryHoldTwin(this.#socketPath);
    } catch {
      // No more open files, for example. The next look tries again.
    }
    return this.#twin !== undefined;
  }

  /** Lets clients in that find no socket file. Returns false if this hub does not have the twin. */
  openTwin(): boolean {
    this.holdTwin();
    const twin = this.#twin;
    if (twin === undefined) return false;
    if (![...this.#doors].some(({ listener }) => listener === twin)) this.#openDoor(twin);
    return true;
  }

  #openDoor(listener: SeqpacketListener): void {
    // The hub takes no descriptors before it knows who connects.
    passDescriptors(listener.fd, false);
    listener.listen();
    const door = { listener, watch: new FdWatch(listener.fd, () => this.#acceptAll(door)) };
    this.#doors.add(door);
  }

  /** Switches to another listener. Clients that wait at the earlier one are let in as well. */
  move(listener: SeqpacketListener): void {
    this.#listener = listener;
    this.open();
    for (const door of this.#doors) this.#acceptAll(door);
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    clearTimeout(this.#timer);
    const doors = [...this.#doors];
    this.#doors.clear();
    const listeners = new Set([...doors.map(({ listener }) => listener), this.#listener]);
    const twin = this.#twin;
    releaseAll([
      ...doors.map(
        ({ watch }) =>
          () =>
            watch.close(),
      ),
      // At once, unless clients may wait there: the next hub looks for it.
      () => {
        if (twin !== undefined && !listeners.has(twin)) twin.close();
      },
      // WHY not a plain close: it closes what waiting clients have sent, and that can block.
      ...[...listeners].map(
        ({ fd }) =>
          () =>
            closeForeign(fd),
      ),
    ]);
  }

  #acceptAll(door: Door): void {
    try {
      if (!this.#newClients.acceptFrom(door.listener)) this.#closeIfLeft(door);
    } catch (error) {
      const message = `cannot accept a client: ${describeError(error)}`;
      this.#log("client-not-accepted", message, codeOf(error));
      // WHY a pause: with a full table of open files the listener stays readable and would spin.
      for (const { watch } of this.#doors) watch.pause();
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => {
        for (const { watch } of this.#doors) watch.resume();
      }, PAUSE_MS);
    }
  }

  #closeIfLeft(door: Door): void {
    const { listener } = door;
    if (listener === this.#listener || listener === this.#twin) return;
    if (!this.#doors.delete(door)) return;
    releaseAll([() => door.watch.close(), () => listener.close()]);
  }
}

interface Listeners {
  readonly socketPath: string;
  readonly listener: SeqpacketListener;
  /** Undefined if another process has it. */
  readonly twin: SeqpacketListener | undefined;
}

interface Door {
  readonly listener: SeqpacketListener;
  readonly watch: FdWatch;
}
