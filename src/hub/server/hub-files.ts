/**
 * Watches the files beside the hub's socket, and makes them again when somebody removes them, as
 * cleaners of /tmp do.
 *
 *   lock gone or replaced     makes and locks a new one; if another hub has it, touches nothing
 *   socket gone or replaced   listens anew; clients that wait at the old socket are still served
 *   journal gone or replaced  rewrites it
 *   folder gone               makes it again, or else lets clients in by its twin. A hub that
 *                             nobody uses ends instead.
 */
import { statSync } from "node:fs";
import { dirname } from "node:path";
import type { Log } from "../../base/log-events.js";
import { releaseAll } from "../../base/scope.js";
import { lockHolder, tryLockPath, unlockFile } from "../../os/file-lock.js";
import { FolderWatch } from "../../os/folder-watch.js";
import { isAt } from "../../os/open-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import type { SeqpacketListener } from "../../os/seqpacket-listener.js";
import { SocketFile } from "../../os/socket-file.js";
import { codeOf, describeError } from "../hub-log.js";
import type { Journal } from "../restart/journal.js";
import { lockPathOf, pidOfListener } from "./hub-start.js";

/**
 * WHY not at once: an `rm -r` would find the folder not empty. WHY so soon: a client that finds no
 * socket starts a hub.
 */
const HEAL_DELAY_MS = 20;
/** The hub looks after this time even if the folder is still changing. */
const HEAL_DELAY_MS_MAX = 200;
/** How often to look while something is wrong. No event may report its end. */
const PROBLEM_LOOK_MS = 500;
/** How often to look without inotify, or without the twin. */
const BLIND_LOOK_MS = 5000;

const BY_TWIN = "Programs of this machine still find this hub, by an abstract socket.";
const NO_TWIN = "No program finds this hub now: another process has its abstract socket.";

interface HubTwin {
  /** Returns false if another process has the twin. */
  holdTwin(): boolean;
  /** Lets clients in that find no socket file. Returns false if that cannot be done. */
  openTwin(): boolean;
}

export interface HubFilesOptions {
  readonly socketPath: string;
  readonly lock: OwnedFd;
  readonly journal: Journal;
  /** Whether the socket's file is the hub's, and not a socket unit's. */
  readonly ownsSocket: boolean;
  /** Whether an earlier process made the listener. Its file may be gone by now. */
  readonly isPassed: boolean;
  /**
   * Whether the socket's folder is there.
   * @throws UNSAFE_RUNTIME_DIR if others could write to it
   */
  readonly checkFolder: () => boolean;
  /** Makes the socket's folder again. Throws if that cannot be done. */
  readonly makeFolder: () => void;
  /** Returns false if the hub keeps or serves something. */
  readonly endIfUnused: () => boolean;
  readonly twin: HubTwin;
  /** Makes another listener at the socket's path, where nobody listens any more. */
  readonly listen: () => SeqpacketListener;
  /** Called when the hub has another lock. */
  readonly onLock: (lock: OwnedFd) => void;
  /** Called when the hub has another listener. */
  readonly onListener: (listener: SeqpacketListener) => void;
  readonly log: Log;
}

export class HubFiles {
  readonly #options: HubFilesOptions;
  #lock: OwnedFd;
  /** Undefined if the file at the path is not this hub's. */
  #socketFile: SocketFile | undefined;
  #watch: FolderWatch | undefined;
  /** The inode of the watched folder. */
  #watched: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** The first change after the last look. */
  #changedAtMs: number | undefined;
  #troubles: readonly string[] = [];
  #isDisplaced = false;
  #hasTwin = false;
  /** Whether the journal was missing at the last look. */
  #isJournalMissing = false;

  constructor(options: HubFilesOptions) {
    this.#options = options;
    this.#lock = options.lock;
    this.#socketFile = new SocketFile(options.socketPath);
  }

  get lock(): OwnedFd {
    return this.#lock;
  }

  /** Starts watching. Call it once the hub listens. */
  watch(): void {
    const { isPassed, ownsSocket, socketPath } = this.#options;
    this.#watchFolder();
    this.#hasTwin = this.#options.twin.holdTwin();
    this.#lookLater();
    if (!isPassed || !ownsSocket || pidOfListener(socketPath) === process.pid) return;
    this.#socketFile = undefined;
    this.#onChange();
  }

  /** The current problems and their remedies, one sentence each. */
  get troubles(): readonly string[] {
    return this.#troubles;
  }

  /** Whether the next hub would find the names of this one. */
  get areReadable(): boolean {
    try {
      return this.#options.checkFolder() && this.#options.journal.isInPlace;
    } catch {
      // Somebody has replaced the folder.
      return false;
    }
  }

  /** Removes the socket's file unless it belongs to another process. */
  removeSocket(): void {
    if (this.#options.ownsSocket) this.#socketFile?.remove();
  }

  unlock(): void {
    unlockFile(this.#lock);
  }

  stopWatching(): void {
    clearTimeout(this.#timer);
    const watch = this.#watch;
    this.#watch = undefined;
    watch?.close();
  }

  close(): void {
    releaseAll([() => this.stopWatching(), () => this.#lock.close()]);
  }

  #check(): void {
    const troubles: string[] = [];
    this.#changedAtMs = undefined;
    this.#hasTwin = this.#options.twin.holdTwin();
    try {
      this.#watchFolder();
      if (this.#checkFolder(troubles) && this.#checkLock(troubles)) {
        this.#checkSocket(troubles);
        this.#checkJournal(troubles);
      }
    } catch (error) {
      // Some errors end with a sentence of their own.
      const found = describeError(error).replace(/\.$/, "");
      const way = this.#openTwin();
      troubles.push(`The files beside the socket cannot be made again: ${found}. ${way}`);
    }
    for (const trouble of troubles)
      if (!this.#troubles.includes(trouble)) this.#options.log("files-missing", trouble);
    if (troubles.length === 0 && this.#troubles.length > 0)
      this.#options.log("files-restored", "all files beside the socket are there again");
    this.#troubles = troubles;
    this.#lookLater();
  }

  #checkFolder(troubles: string[]): boolean {
    const { checkFolder, endIfUnused, makeFolder, socketPath, log } = this.#options;
    if (checkFolder()) return true;
    if (endIfUnused()) return false;
    const folder = dirname(socketPath);
    try {
      makeFolder();
      this.#watchFolder();
      log("file-remade", `the folder ${folder} was removed, and is made again`, { path: folder });
      return true;
    } catch (error) {
      const way = this.#openTwin();
      troubles.push(
        `The folder ${folder} was removed, and cannot be made again: ${describeError(error)}. ` +
          `${way} Make the folder again: mkdir -m 700 ${folder}`,
      );
      return false;
    }
  }

  /** Says whether clients find this hub without a socket file. */
  #openTwin(): string {
    return this.#options.twin.openTwin() ? BY_TWIN : NO_TWIN;
  }

  /** Whether this hub holds the lock of its path. */
  #checkLock(troubles: string[]): boolean {
    const { socketPath, journal, log, onLock } = this.#options;
    const path = lockPathOf(socketPath);
    if (!isAt(path, this.#lock)) {
      const lock = tryLockPath(path);
      if (lock === undefined) {
        this.#isDisplaced = true;
        journal.hold();
        const other = lockHolder(path)?.words ?? "another process";
        troubles.push(
          `Another hub (${other}) has taken ${socketPath} after its files were removed. ` +
            `This one (process ${process.pid}) serves the clients that it has. ` +
            "Let them end, then end one of the two hubs.",
        );
        return false;
      }
      log("file-remade", `the lock ${path} was removed, and is made again`, { path });
      const earlier = this.#lock;
      this.#lock = lock;
      onLock(lock);
      earlier.close();
    }
    if (this.#isDisplaced) journal.goOn();
    this.#isDisplaced = false;
    return true;
  }

  #checkSocket(troubles: string[]): void {
    const { socketPath, ownsSocket, listen, onListener, log } = this.#options;
    if (this.#socketFile?.isThere()) return;
    if (!ownsSocket) {
      troubles.push(
        `The socket ${socketPath} was removed. It belongs to a socket unit: ` +
          "have systemd make it again (systemctl restart).",
      );
      return;
    }
    const pid = pidOfListener(socketPath);
    if (pid === process.pid) {
      this.#socketFile = new SocketFile(socketPath);
      return;
    }
    if (pid !== undefined) {
      troubles.push(
        pid > 0
          ? `Process ${pid} listens at ${socketPath} instead of this hub. End that process.`
          : `The hub cannot see which process listens at ${socketPath}: too many clients wait ` +
              "there, or the process is in another PID namespace.",
      );
      return;
    }
    const listener = listen();
    const message = `the socket ${socketPath} was removed, and is made again`;
    log("file-remade", message, { path: socketPath });
    this.#socketFile = new SocketFile(socketPath);
    onListener(listener);
  }

  #checkJournal(troubles: string[]): void {
    const { journal, log } = this.#options;
    const { path } = journal;
    const wasMissing = this.#isJournalMissing;
    this.#isJournalMissing = !journal.isInPlace;
    if (!this.#isJournalMissing) return;
    if (wasMissing && !journal.isRewriting) {
      troubles.push(
        `The journal ${path} was removed, and could not be written again yet. ` +
          "If this hub is killed now, its names are lost. Make room on the disk.",
      );
    } else if (!wasMissing)
      log("file-remade", `the journal ${path} was removed, and is written again`, { path });
    journal.rewrite();
  }

  #lookLater(): void {
    clearTimeout(this.#timer);
    const pauseMs =
      this.#troubles.length > 0 || this.#isJournalMissing
        ? PROBLEM_LOOK_MS
        : this.#watch === undefined || !this.#hasTwin
          ? BLIND_LOOK_MS
          : undefined;
    if (pauseMs === undefined) return;
    this.#timer = setTimeout(() => this.#check(), pauseMs);
    this.#timer.unref();
  }

  #onChange(): void {
    const now = performance.now();
    this.#changedAtMs ??= now;
    if (now - this.#changedAtMs > HEAL_DELAY_MS_MAX) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#check(), HEAL_DELAY_MS);
  }

  /** Watches the folder again if it was replaced: a watch stays with the old folder. */
  #watchFolder(): void {
    const inode = this.#folderInode();
    if (this.#watch !== undefined && inode === this.#watched) return;
    this.#watch?.close();
    this.#watch = undefined;
    if (inode === undefined) return;
    try {
      this.#watch = FolderWatch.open(dirname(this.#options.socketPath), () => this.#onChange());
      this.#watched = inode;
    } catch (error) {
      const message = `looks at its files from time to time: ${describeError(error)}`;
      this.#options.log("files-not-watched", message, codeOf(error));
    }
  }

  #folderInode(): number | undefined {
    return statSync(dirname(this.#options.socketPath), { throwIfNoEntry: false })?.ino;
  }
}
