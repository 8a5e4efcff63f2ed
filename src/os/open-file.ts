/**
 * Opens files by the C library and not by Node's fs: Node keeps a list of the descriptors that each worker thread opened,
 * closes what is left of them when the thread ends, and warns where somebody else closed one. Ours have their owners.
 */
import { constants } from "node:fs";
import { libc } from "../ffi/libc.js";
import { OwnedFd } from "./owned-fd.js";
import { systemError } from "./system-error.js";

const FLAGS = {
  read: constants.O_RDONLY,
  "read-write": constants.O_RDWR,
  // WHY O_NONBLOCK: an owner who holds a lease on the file (F_SETLEASE) would otherwise make this wait for 45 s.
  "memory-read": constants.O_RDONLY | constants.O_NONBLOCK,
  "memory-read-write": constants.O_RDWR | constants.O_NONBLOCK,
  // WHY these: opening a FIFO must not wait, and a link must not lead to another file.
  // WHY for reading too: the hub keeps the last lines of a log that has become long.
  log: constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK | constants.O_NOFOLLOW,
  own: constants.O_RDWR | constants.O_CREAT | constants.O_NONBLOCK | constants.O_NOFOLLOW,
  "own-append": constants.O_RDWR | constants.O_CREAT | constants.O_APPEND | constants.O_NONBLOCK | constants.O_NOFOLLOW,
  "own-read": constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW,
} as const;

const O_CLOEXEC = 0o2000000;
const OWN_FILE_MODE = 0o600;

/** A new open file description, closed on exec; the caller owns it. `log` and `own` make a missing file, for its owner alone. */
export function openFile(path: string, use: keyof typeof FLAGS, attempt = `open ${path}`): OwnedFd {
  const fd = libc().open(path, FLAGS[use] | O_CLOEXEC, OWN_FILE_MODE);
  if (fd < 0) throw systemError(attempt, "open");
  return new OwnedFd(fd);
}
