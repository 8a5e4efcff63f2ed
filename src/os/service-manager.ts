/**
 * What a service says to systemd, or a hub to its keeper: word of its state, and descriptors to keep over a restart.
 * https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html
 */
import { SystemError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { libc } from "../ffi/libc.js";
import { OwnedFd } from "./owned-fd.js";
import { type Environment, notUnderstood } from "./received-fds.js";
import * as layout from "./socket-layout.js";
import { trySendMessage } from "./socket-message.js";
import { errnos, systemError } from "./system-error.js";

const FD_NAME = /^[\x20-\x39\x3b-\x7e]{1,255}$/;

/** Shortages that pass: the word is sent again later. */
const PASSING_ERRNOS: readonly number[] = [errnos.ETOOMANYREFS, errnos.ENOMEM, errnos.ENOBUFS];

/** Sends one word; false if the manager has too much to read already. */
type Send = (text: string, fds: readonly OwnedFd[]) => boolean;

export class ServiceManager {
  /** The socket by which room for another word can be waited for; undefined if each word has a socket of its own. */
  readonly socket: OwnedFd | undefined;
  readonly #send: Send;

  private constructor(send: Send, socket: OwnedFd | undefined) {
    this.#send = send;
    this.socket = socket;
  }

  /**
   * The manager that started this process and wants to hear from it; undefined if there is none. Removes the variable:
   * children do not speak in this process's name, and a second call finds nothing.
   * @throws INVALID_MESSAGE if its address is none that is understood
   */
  static fromEnv(env: Environment = process.env): ServiceManager | undefined {
    const path = env.NOTIFY_SOCKET;
    delete env.NOTIFY_SOCKET;
    if (path === undefined || path === "") return undefined;
    const isAddress = /^[/@][^\0]+$/.test(path) && Buffer.byteLength(path, "utf8") <= limits.socketPathBytesMax;
    if (!isAddress) {
      const wanted = `an absolute path or "@" and a name, of at most ${limits.socketPathBytesMax} bytes`;
      throw notUnderstood(`NOTIFY_SOCKET is ${JSON.stringify(path.slice(0, 200))}`, wanted);
    }
    return new ServiceManager(throughOwnSockets(path), undefined);
  }

  /** The process on the other side of a connected socket, which stays the caller's. */
  static over(socket: OwnedFd): ServiceManager {
    return new ServiceManager((text, fds) => trySendMessage(socket, Buffer.from(text, "utf8"), fds), socket);
  }

  /**
   * Says how this service is: `READY=1`, `STOPPING=1`, `STATUS=...`, several on lines of their own. Nobody answers.
   * @returns false if the manager has too much to read already; the same can be said again later
   * @throws SystemError if nobody listens there
   */
  notify(state: string): boolean {
    if (state === "" || state.includes("\0")) throw new TypeError("A state is not empty and holds no zero byte");
    return this.#tell(state, []);
  }

  /**
   * Gives descriptors to be kept, and to be passed under this name to the next process of the service; they stay the caller's too.
   * WHY FDPOLL=0: a manager that polls what it keeps drops a socket whose other side has hung up.
   * Taken silently: a manager whose unit has no room (FileDescriptorStoreMax) drops them.
   * @returns false if the manager has too much to read, this user too many descriptors under way, or the system too little memory
   */
  store(name: string, fds: readonly OwnedFd[]): boolean {
    if (fds.length === 0) throw new RangeError("Nothing to store: no file descriptor was given");
    return this.#tell(`FDSTORE=1\nFDNAME=${checkFdName(name)}\nFDPOLL=0`, fds);
  }

  /** Lets the manager close all that it keeps under this name. Returns and throws as `notify`. */
  remove(name: string): boolean {
    return this.#tell(`FDSTOREREMOVE=1\nFDNAME=${checkFdName(name)}`, []);
  }

  #tell(text: string, fds: readonly OwnedFd[]): boolean {
    try {
      return this.#send(text, fds);
    } catch (error) {
      if (error instanceof SystemError && PASSING_ERRNOS.includes(error.errno)) return false;
      throw error;
    }
  }
}

/** WHY a socket for each word: a manager that was restarted is found again. */
function throughOwnSockets(path: string): Send {
  const address = path.startsWith("@") ? layout.abstractAddress(path.slice(1)) : layout.unixAddress(path);
  return (text, fds) => {
    const fd = libc().socket(layout.AF_UNIX, layout.SOCK_DGRAM | layout.SOCK_CLOEXEC | layout.SOCK_NONBLOCK, 0);
    if (fd < 0) throw systemError("open a socket", "socket");
    using socket = new OwnedFd(fd);
    if (libc().connect(socket.number, address, address.byteLength) < 0) {
      throw systemError(`tell the service manager at ${path}`, "connect");
    }
    return trySendMessage(socket, Buffer.from(text, "utf8"), fds);
  };
}

/** The names that systemd takes. */
function checkFdName(name: string): string {
  if (FD_NAME.test(name)) return name;
  throw new TypeError(`A stored descriptor's name is 1 to 255 printable ASCII characters without ":", not ${name}`);
}
