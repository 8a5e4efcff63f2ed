/**
 * What systemd gives a service and takes from it: descriptors at the start, word of its state, and descriptors to keep over a restart.
 * https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html, sd_listen_fds.html
 */
import { CudaIpcError, SystemError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { acquireIn } from "../base/scope.js";
import { libc } from "../ffi/libc.js";
import { OwnedFd } from "./owned-fd.js";
import * as layout from "./socket-layout.js";
import { trySendMessage } from "./socket-message.js";
import { errnos, systemError } from "./system-error.js";

type Environment = Record<string, string | undefined>;

export interface ReceivedFd {
  /** What the unit or `store` called it; not unique. */
  readonly name: string;
  readonly fd: OwnedFd;
}

const F_GETFD = 1;
/** The first that is passed; the others follow. */
const FIRST_FD = 3;
/** What systemd itself calls those that nobody named. */
const UNNAMED = "unknown";
const FD_NAME = /^[\x20-\x39\x3b-\x7e]{1,255}$/;

/**
 * The descriptors that the service manager started this process with, in its order; none where they are another process's. The caller owns
 * them. The variables are removed, so that no child takes them for its own and a second call finds nothing.
 * WHY at the start of a process only: the numbers from 3 are somebody else's where nothing was passed.
 * @throws INVALID_MESSAGE where the variables contradict each other or are no numbers, SYSTEM_ERROR where a descriptor is not there
 */
export function receivedFds(env: Environment = process.env, pid: number = process.pid): ReceivedFd[] {
  const { LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES } = env;
  for (const name of ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"]) delete env[name];
  if (LISTEN_PID === undefined || LISTEN_FDS === undefined) return [];
  if (wholeNumber("LISTEN_PID", LISTEN_PID) !== pid) return [];
  const count = wholeNumber("LISTEN_FDS", LISTEN_FDS);
  const names = LISTEN_FDNAMES?.split(":");
  if (names !== undefined && names.length !== count) {
    throw notUnderstood(`LISTEN_FDNAMES has ${names.length} names`, `${count}, as LISTEN_FDS says`);
  }
  // WHY before the first is taken: where fewer were passed, the others are Node's own, and closing those again ends the process.
  for (let number = FIRST_FD; number < FIRST_FD + count; number += 1) {
    if (libc().fcntl(number, F_GETFD, 0) < 0) {
      throw systemError(`take over descriptor ${number} of the ${count} that the service manager passed`, "fcntl");
    }
  }
  return acquireIn((scope) =>
    Array.from({ length: count }, (_, index) => {
      const fd = scope.own(OwnedFd.adopt(FIRST_FD + index), (fd) => fd.close());
      return { name: names?.[index] || UNNAMED, fd };
    }),
  );
}

/** Holds nothing open: each word goes through a socket of its own, so that a manager that was restarted is found again. */
export class ServiceManager {
  readonly #path: string;
  readonly #address: Uint8Array;

  private constructor(path: string) {
    this.#path = path;
    this.#address = path.startsWith("@") ? layout.abstractAddress(path.slice(1)) : layout.unixAddress(path);
  }

  /**
   * The manager that started this process and wants to hear from it; undefined where there is none. The variable is removed, so that
   * children do not speak in this process's name and a second call finds nothing.
   * @throws INVALID_MESSAGE where its address is none that is understood
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
    return new ServiceManager(path);
  }

  /**
   * Says how this service is: `READY=1`, `STOPPING=1`, `STATUS=...`, several on lines of their own. Nobody answers.
   * @returns false where the manager has too much to read already; the same can be said again later
   * @throws SystemError where nobody listens there
   */
  notify(state: string): boolean {
    if (state === "" || state.includes("\0")) throw new TypeError("A state is not empty and holds no zero byte");
    return this.#tell(state, []);
  }

  /**
   * Gives descriptors to be kept, and to be passed under this name to the next process of the service; they stay the caller's too.
   * WHY FDPOLL=0: a manager that polls what it keeps drops a socket whose other side has hung up.
   * Taken silently: a manager whose unit has no room (FileDescriptorStoreMax) drops them.
   * @returns false where the manager has too much to read, or this user too many descriptors under way
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
    const fd = libc().socket(layout.AF_UNIX, layout.SOCK_DGRAM | layout.SOCK_CLOEXEC | layout.SOCK_NONBLOCK, 0);
    if (fd < 0) throw systemError("open a socket", "socket");
    using socket = new OwnedFd(fd);
    if (libc().connect(socket.number, this.#address, this.#address.byteLength) < 0) {
      throw systemError(`tell the service manager at ${this.#path}`, "connect");
    }
    try {
      return trySendMessage(socket, Buffer.from(text, "utf8"), fds);
    } catch (error) {
      if (error instanceof SystemError && error.errno === errnos.ETOOMANYREFS) return false;
      throw error;
    }
  }
}

/** The names that systemd takes. */
function checkFdName(name: string): string {
  if (FD_NAME.test(name)) return name;
  throw new TypeError(`A stored descriptor's name is 1 to 255 printable ASCII characters without ":", not ${name}`);
}

function wholeNumber(variable: string, text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw notUnderstood(`${variable} is ${JSON.stringify(text.slice(0, 50))}`, "a whole number");
}

function notUnderstood(found: string, wanted: string): CudaIpcError {
  return new CudaIpcError("INVALID_MESSAGE", `Cannot understand the service manager: ${found}, wanted ${wanted}`);
}
