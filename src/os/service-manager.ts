/**
 * Messages of a service to systemd, or of a hub to its keeper: its state, and descriptors to keep
 * over a restart. https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html
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

/** Temporary shortages: the message is sent again later. */
const PASSING_ERRNOS: readonly number[] = [errnos.ETOOMANYREFS, errnos.ENOMEM, errnos.ENOBUFS];

/** Sends one message. Returns false if the manager has to read first. */
type Send = (text: string, fds: readonly OwnedFd[]) => boolean;

export class ServiceManager {
  /** The socket on which to wait for room; undefined if each message has a socket of its own. */
  readonly socket: OwnedFd | undefined;
  readonly #send: Send;

  private constructor(send: Send, socket: OwnedFd | undefined) {
    this.#send = send;
    this.socket = socket;
  }

  /**
   * The manager that started this process; undefined if there is none. Removes the variable, so
   * children cannot speak for this process, and a second call finds nothing.
   * @throws INVALID_MESSAGE if its address is invalid
   */
  static fromEnv(env: Environment = process.env): ServiceManager | undefined {
    const path = env.NOTIFY_SOCKET;
    delete env.NOTIFY_SOCKET;
    if (path === undefined || path === "") return undefined;
    const isAddress =
      /^[/@][^\0]+$/.test(path) && Buffer.byteLength(path, "utf8") <= limits.socketPathBytesMax;
    if (!isAddress) {
      const size = `at most ${limits.socketPathBytesMax} bytes`;
      const wanted = `an absolute path or "@" and a name, of ${size}`;
      throw notUnderstood(`NOTIFY_SOCKET is ${JSON.stringify(path.slice(0, 200))}`, wanted);
    }
    return new ServiceManager(throughOwnSockets(path), undefined);
  }

  /** The process on the other side of a connected socket. The caller keeps the socket. */
  static over(socket: OwnedFd): ServiceManager {
    return new ServiceManager(
      (text, fds) => trySendMessage(socket, Buffer.from(text, "utf8"), fds),
      socket,
    );
  }

  /**
   * Sends the state of this service: `READY=1`, `STOPPING=1`, `STATUS=...`, one on each line. There
   * is no reply.
   * @returns false if the manager has to read first; send it again later
   * @throws SystemError if nobody listens
   */
  notify(state: string): boolean {
    if (state === "" || state.includes("\0"))
      throw new TypeError("A state must not be empty or hold a zero byte");
    return this.#tell(state, []);
  }

  /**
   * Stores descriptors under a name for the next process of the service. The caller keeps its own.
   * A manager without room (FileDescriptorStoreMax) drops them silently.
   * WHY FDPOLL=0: otherwise the manager drops a socket whose other side has hung up.
   * @returns false if the manager has to read first, too many descriptors are in flight, or memory
   * is short
   */
  store(name: string, fds: readonly OwnedFd[]): boolean {
    if (fds.length === 0) throw new RangeError("Nothing to store: no file descriptor was given");
    return this.#tell(`FDSTORE=1\nFDNAME=${checkFdName(name)}\nFDPOLL=0`, fds);
  }

  /** Drops all descriptors under this name. Returns and throws as `notify`. */
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

/** A new socket for each message finds a manager that was restarted. */
function throughOwnSockets(path: string): Send {
  const address = path.startsWith("@")
    ? layout.abstractAddress(path.slice(1))
    : layout.unixAddress(path);
  return (text, fds) => {
    const fd = libc().socket(
      layout.AF_UNIX,
      layout.SOCK_DGRAM | layout.SOCK_CLOEXEC | layout.SOCK_NONBLOCK,
      0,
    );
    if (fd < 0) throw systemError("open a socket", "socket");
    using socket = new OwnedFd(fd);
    if (libc().connect(socket.number, address, address.byteLength) < 0) {
      throw systemError(`tell the service manager at ${path}`, "connect");
    }
    return trySendMessage(socket, Buffer.from(text, "utf8"), fds);
  };
}

/** Checks the name by systemd's rules. */
function checkFdName(name: string): string {
  if (FD_NAME.test(name)) return name;
  throw new TypeError(
    `A stored descriptor's name is 1 to 255 printable ASCII characters without ":", not ${name}`,
  );
}
