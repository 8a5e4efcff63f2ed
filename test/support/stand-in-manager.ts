/**
 * Stands in for systemd's end of NOTIFY_SOCKET: a datagram socket that records what it receives.
 */
import { lastErrno, libc } from "../../src/ffi/libc.js";
import { addressOf } from "../../src/os/host-memory.js";
import { OwnedFd } from "../../src/os/owned-fd.js";
import * as layout from "../../src/os/socket-layout.js";

export interface Told {
  readonly text: string;
  /** The received descriptors. The caller owns them. */
  readonly fds: readonly OwnedFd[];
}

export class StandInManager {
  readonly fd: OwnedFd;
  readonly #memory = new layout.MessageMemory(4096, addressOf);

  /** @param address a path, or "@" and a name */
  constructor(address: string) {
    const type = layout.SOCK_DGRAM | layout.SOCK_CLOEXEC | layout.SOCK_NONBLOCK;
    this.fd = new OwnedFd(libc().socket(layout.AF_UNIX, type, 0));
    const bytes = address.startsWith("@")
      ? layout.abstractAddress(address.slice(1))
      : layout.unixAddress(address);
    if (libc().bind(this.fd.number, bytes, bytes.byteLength) < 0)
      throw new Error(`bind: errno ${lastErrno()}`);
  }

  /** The oldest unread message; undefined if there is none. */
  read(): Told | undefined {
    this.#memory.prepareReceive();
    const flags = layout.MSG_DONTWAIT | layout.MSG_CMSG_CLOEXEC;
    const byteLength = libc().recvmsg(this.fd.number, this.#memory.header, flags);
    if (byteLength < 0) return undefined;
    const text = Buffer.from(this.#memory.data.subarray(0, byteLength)).toString();
    return { text, fds: this.#memory.receivedFds().map((fd) => new OwnedFd(fd)) };
  }

  [Symbol.dispose](): void {
    for (let told = this.read(); told !== undefined; told = this.read())
      for (const fd of told.fds) fd.close();
    this.fd.close();
  }
}
