/**
 * The keeper's process as its hub has it. This hub or an earlier one started it. The hub has its
 * own end of the socket, and a pidfd to see the keeper's end and to kill it.
 */
import { spawn } from "node:child_process";
import { childEnvironment } from "../../base/child-environment.js";
import { CudaIpcError } from "../../base/errors.js";
import type { LogSettings } from "../../base/log-events.js";
import { ownProgram } from "../../base/own-package.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import { addedToLog, logSize } from "../../os/log-tail.js";
import { openFile } from "../../os/open-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { killProcess, openPidfd, ProcessWatch, pidOf } from "../../os/process-watch.js";
import { SeqpacketSocket } from "../../os/seqpacket.js";
import { fromNodeError } from "../../os/system-error.js";

export interface KeeperSettings {
  /** The command that starts the next hub. */
  readonly command: readonly string[];
  readonly logSettings: LogSettings;
}

export class KeeperProcess {
  readonly pid: number;
  readonly socket: OwnedFd;
  readonly #pidfd: OwnedFd;
  readonly #watch: ProcessWatch;
  /** The new part of the log to which the keeper writes. The hub may write there, too. */
  readonly words: () => string;

  /**
   * Takes over the descriptors.
   * @param onEnd called once if the process ends before `close`
   */
  constructor(socket: OwnedFd, pidfd: OwnedFd, onEnd: () => void, words = () => "") {
    this.words = words;
    this.socket = socket;
    this.#pidfd = pidfd.duplicate();
    this.#watch = new ProcessWatch(pidfd, onEnd);
    this.pid = pidOf(pidfd) ?? 0;
  }

  /**
   * Starts one. Whatever is sent to it from now on survives this hub, because the keeper has its
   * end of the socket from the start.
   * @param socketPath of the hub; the log of the keeper and the next hub lies beside it
   */
  static start(
    { command, logSettings }: KeeperSettings,
    socketPath: string,
    onEnd: () => void,
  ): KeeperProcess {
    return acquireIn((scope) => {
      const own = <T extends OwnedFd>(fd: T): T => scope.own(fd, (fd) => fd.close());
      const [socket, keeperSocket] = SeqpacketSocket.pair().map(({ fd }) => own(fd)) as [
        OwnedFd,
        OwnedFd,
      ];
      const hub = own(required(openPidfd(process.pid)));
      const logPath = `${socketPath}.log`;
      const sizeBefore = logSize(logPath);
      const log = tryOpenLog(logPath);
      scope.defer(() => log?.close());
      const args = [JSON.stringify(command), socketPath, JSON.stringify(logSettings)];
      const pidfd = own(required(spawnKeeper(args, log, [keeperSocket, socket, hub])));
      const keeper = new KeeperProcess(socket, pidfd, onEnd, () => addedToLog(logPath, sizeBefore));
      releaseAll([keeperSocket, hub, log].map((fd) => () => fd?.close()));
      return keeper;
    });
  }

  /** Kills it, even if it is stopped. Its end is reported as usual. */
  kill(): void {
    killProcess(this.#pidfd);
  }

  /** Lets go of it. It goes on, and starts another hub when this one ends. */
  close(): void {
    releaseAll([() => this.#watch.close(), () => this.#pidfd.close(), () => this.socket.close()]);
  }
}

/** Options of V8 that save memory: a keeper takes 12 MiB more than a bare Node, instead of 25. */
const SMALL = ["--max-semi-space-size=1", "--single-threaded", "--optimize-for-size", "--no-opt"];

/**
 * Returns a pidfd of the new process, which has these descriptors from number 3 on. Returns
 * undefined if it could not be started.
 */
function spawnKeeper(
  args: readonly string[],
  log: OwnedFd | undefined,
  fds: readonly OwnedFd[],
): OwnedFd | undefined {
  try {
    const child = spawn(
      process.execPath,
      [...SMALL, ownProgram("keeper/main.js") ?? "keeper/main.js", ...args],
      {
        detached: true,
        env: childEnvironment(),
        stdio: ["ignore", "ignore", log?.number ?? "ignore", ...fds.map((fd) => fd.number)],
      },
    );
    // The missing pid reports the failure.
    child.on("error", () => {});
    child.unref();
    // At once: the number is reserved until Node reaps the process, in a later turn.
    return child.pid === undefined ? undefined : openPidfd(child.pid);
  } catch (error) {
    throw fromNodeError("start a keeper", error);
  }
}

/** A keeper without a log is better than none. */
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
