/**
 * Calls back when names in a folder are added, removed or moved (inotify). Writes to the files are
 * not watched and cost nothing. https://man7.org/linux/man-pages/man7/inotify.7.html
 */
import { readSync } from "node:fs";
import { acquireIn, releaseAll } from "../base/scope.js";
import { libc } from "../ffi/libc.js";
import { FdWatch } from "./fd-watch.js";
import { OwnedFd } from "./owned-fd.js";
import { systemError } from "./system-error.js";

const IN_NONBLOCK = 0o4000;
const IN_CLOEXEC = 0o2000000;
const IN_MOVED_FROM = 0x40;
const IN_MOVED_TO = 0x80;
const IN_CREATE = 0x100;
const IN_DELETE = 0x200;
const IN_DELETE_SELF = 0x400;
const IN_MOVE_SELF = 0x800;
const IN_ONLYDIR = 0x0100_0000;
const WANTED =
  IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

export class FolderWatch {
  readonly #fd: OwnedFd;
  readonly #watch: FdWatch;
  readonly #onChange: () => void;

  private constructor(fd: OwnedFd, onChange: () => void) {
    this.#fd = fd;
    this.#onChange = onChange;
    this.#watch = new FdWatch(fd, () => this.#read());
  }

  /** @throws SystemError if the folder is missing, or the user has no inotify instances left */
  static open(folder: string, onChange: () => void): FolderWatch {
    return acquireIn((scope) => {
      const number = libc().inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
      if (number < 0) throw systemError(`watch ${folder}`, "inotify_init1");
      const fd = scope.own(new OwnedFd(number), (fd) => fd.close());
      if (libc().inotify_add_watch(number, folder, WANTED) < 0)
        throw systemError(`watch ${folder}`, "inotify_add_watch");
      return new FolderWatch(fd, onChange);
    });
  }

  close(): void {
    releaseAll([() => this.#watch.close(), () => this.#fd.close()]);
  }

  /** The caller checks all of its own names, so the names in the events do not matter. */
  #read(): void {
    const events = Buffer.allocUnsafe(16_384);
    try {
      while (readSync(this.#fd.number, events) === events.byteLength);
    } catch {
      // Nothing is left to read (EAGAIN).
    }
    this.#onChange();
  }
}
