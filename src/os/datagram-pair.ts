/** Two DGRAM sockets connected to each other, without a name that others could find. */
import { libc } from "../ffi/libc.js";
import { OwnedFd } from "./owned-fd.js";
import * as layout from "./socket-layout.js";
import { systemError } from "./system-error.js";

/** The caller owns both. */
export function datagramPair(): [OwnedFd, OwnedFd] {
  const fds = new Int32Array(new ArrayBuffer(8));
  const type = layout.SOCK_DGRAM | layout.SOCK_CLOEXEC | layout.SOCK_NONBLOCK;
  if (libc().socketpair(layout.AF_UNIX, type, 0, fds) < 0) throw systemError("make a pair of sockets", "socketpair");
  const [first = -1, second = -1] = fds;
  return [new OwnedFd(first), new OwnedFd(second)];
}
