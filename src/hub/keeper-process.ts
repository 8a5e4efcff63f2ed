/**
 * The keeper's process as its hub has it: started by this hub, or by an earlier one and then the process that started this hub.
 * The hub has its own end of the socket, and a pidfd, by which it sees the keeper's end and can end it.
 */
import { spawn } from "node:child_process";
import { CudaIpcError } from "../base/errors.js";
import { ownProgram } from "../base/own-program.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { openFile } from "../os/open-file.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { killProcess, openPidfd, ProcessWatch, pidOf } from "../os/process-watch.js";
import { SeqpacketSocket } from "../os/seqpacket.js";
import { fromNodeError } from "../os/system-error.js";

export class KeeperProcess {
  readonly pid: number;
  readonly socket: OwnedFd;
  readonly #pidfd: OwnedFd;
  readonly #watch: ProcessWatch;

  /**
   * Takes over the descriptors.
   * @param onEnd called once if the process ends before `close`
   */
  constructor(socket: OwnedFd, pidfd: OwnedFd, onEnd: () => void) {
    this.socket = socket;
    this.#pidfd = pidfd.duplicate();
    this.#watch = new ProcessWatch(pidfd, onEnd);
    this.pid = pidOf(pidfd) ?? 0;
  }

  /**
   * Starts one. From here on what is sent to it is not lost with this hub: the keeper has its end of the socket from the start.
   * @param command how it starts the next hub
   * @param socketPath of the hub; where it and the next hub write what happens lies beside it
   */
  static start(command: readonly string[], socketPath: string, onEnd: () => void): KeeperProcess {
    return acquireIn((scope) => {
      const own = <T extends OwnedFd>(fd: T): T => scope.own(fd, (fd) => fd.close());
      const [socket, keeperSocket] = SeqpacketSocket.pair().map(({ fd }) => own(fd)) as [OwnedFd, OwnedFd];
      const hub = own(required(openPidfd(process.pid)));
      const log = tryOpenLog(`${socketPath}.log`);
      scope.defer(() => log?.close());
      const pidfd = own(required(spawnKeeper([JSON.stringify(command), socketPath], log, [keeperSocket, socket, hub])));
      const keeper = new KeeperProcess(socket, pidfd, onEnd);
      releaseAll([keeperSocket, hub, log].map((fd) => () => fd?.close()));
      return keeper;
    });
  }

  /** Ends it by force, also if it is stopped; its end is then told as any other. */
  kill(): void {
    killProcess(this.#pidfd);
  }

  /** Lets go of it without a word: it goes on, and starts another hub if this one ends. */
  close(): void {
    releaseAll([() => this.#watch.close(), () => this.#pidfd.close(), () => this.socket.close()]);
  }
}

/** Options of V8. WHY: a keeper does little, and need not be fast; so it takes 12 MiB more than a bare Node, and not 25. */
const SMALL = ["--max-semi-space-size=1", "--single-threaded", "--optimize-for-size", "--no-opt"];

/** A pidfd of the new process, which has these descriptors from number 3 on; undefined if it could not be started. */
function spawnKeeper(args: readonly string[], log: OwnedFd | undefined, fds: readonly OwnedFd[]): OwnedFd | undefined {
  const env = { ...process.env };
  // WHY: options meant for this process (a debugger's port, preloaded modules) are neither the keeper's nor the next hub's.
  delete env.NODE_OPTIONS;
  try {
    const child = spawn(process.execPath, [...SMALL, ownProgram("keeper/main.js") ?? "keeper/main.js", ...args], {
      detached: true,
      env,
      stdio: ["ignore", "ignore", log?.number ?? "ignore", ...fds.map((fd) => fd.number)],
    });
    // WHY: that it could not be started is told here, by the number that is missing.
    child.on("error", () => {});
    child.unref();
    // WHY at once: its number is its own until Node has waited for it, which is in a later turn.
    return child.pid === undefined ? undefined : openPidfd(child.pid);
  } catch (error) {
    throw fromNodeError("start a keeper", error);
  }
}

/** WHY not thrown: a keeper without a log is better than none. */
function tryOpenLog(path: string): OwnedFd | undefined {
  try {
    return openFile(path, "log");
  } catch {
    return undefined;
  }
}

function required(pidfd: OwnedFd | undefined): OwnedFd {
  if (pidfd !== undefined) return pidfd;
  throw new CudaIpcError("SYSTEM_ERROR", "Cannot start a keeper: its process could not be started");
}
