/**
 * The structures of sendmsg and recvmsg on 64-bit little-endian Linux (x86-64 and AArch64):
 *
 *   msghdr (56)   name 0:8  namelen 8:4  iov 16:8  iovlen 24:8  control 32:8
 *                 controllen 40:8  flags 48:4
 *   iovec (16)    base 0:8  len 8:8
 *   cmsghdr (16)  len 0:8   level 8:4    type 12:4   then data, padded to 8
 *   sockaddr_un   family 0:2  path 2:108
 */
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";

export const AF_UNIX = 1;
export const SOCK_STREAM = 1;
export const SOCK_DGRAM = 2;
export const SOCK_SEQPACKET = 5;
export const SOCK_CLOEXEC = 0x80000;
export const SOCK_NONBLOCK = 0x800;
export const SOL_SOCKET = 1;
export const SO_TYPE = 3;
export const SO_PEERCRED = 17;
export const SO_ACCEPTCONN = 30;
export const SO_DOMAIN = 39;
export const SO_PEERGROUPS = 59;
export const SO_PEERPIDFD = 77;
export const SO_PASSRIGHTS = 83;
const SCM_RIGHTS = 1;
export const MSG_PEEK = 0x2;
export const MSG_CTRUNC = 0x8;
export const MSG_TRUNC = 0x20;
export const MSG_DONTWAIT = 0x40;
export const MSG_NOSIGNAL = 0x4000;
export const MSG_CMSG_CLOEXEC = 0x40000000;

const MSGHDR_BYTES = 56;
const IOVEC_BYTES = 16;
const CMSGHDR_BYTES = 16;
/** CMSG_SPACE of the largest control message that the kernel passes. */
const CONTROL_BYTES = CMSGHDR_BYTES + Math.ceil((limits.scmRightsFdsMax * 4) / 8) * 8;

/**
 * Memory for one message with its control data. It never moves, so the addresses inside stay valid.
 */
export class MessageMemory {
  readonly header: Uint8Array;
  readonly data: Uint8Array;
  readonly #headerView: DataView;
  readonly #control: Uint8Array;
  readonly #controlView: DataView;
  readonly #addresses: { readonly iovec: bigint; readonly data: bigint; readonly control: bigint };

  constructor(dataBytes: number, addressOf: (bytes: Uint8Array) => bigint) {
    this.header = new Uint8Array(new ArrayBuffer(MSGHDR_BYTES + IOVEC_BYTES));
    this.#headerView = new DataView(this.header.buffer);
    this.data = new Uint8Array(new ArrayBuffer(dataBytes));
    this.#control = new Uint8Array(new ArrayBuffer(CONTROL_BYTES));
    this.#controlView = new DataView(this.#control.buffer);
    this.#addresses = {
      iovec: addressOf(this.header) + BigInt(MSGHDR_BYTES),
      data: addressOf(this.data),
      control: addressOf(this.#control),
    };
  }

  /** Prepares the header for recvmsg. @param byteLength the most that it may receive */
  prepareReceive(byteLength = this.data.byteLength): void {
    this.#describe(byteLength, CONTROL_BYTES);
  }

  /** Prepares the header without any room, to learn whether a message has descriptors. */
  prepareLook(): void {
    this.#describe(0, 0);
  }

  /**
   * Prepares the header for sendmsg: the first `byteLength` bytes of `data`, and these descriptors.
   */
  prepareSend(byteLength: number, fds: readonly number[]): void {
    const controlLength = CMSGHDR_BYTES + fds.length * 4;
    this.#describe(byteLength, fds.length === 0 ? 0 : Math.ceil(controlLength / 8) * 8);
    if (fds.length === 0) return;
    this.#controlView.setBigUint64(0, BigInt(controlLength), true);
    this.#controlView.setInt32(8, SOL_SOCKET, true);
    this.#controlView.setInt32(12, SCM_RIGHTS, true);
    for (const [index, fd] of fds.entries())
      this.#controlView.setInt32(CMSGHDR_BYTES + index * 4, fd, true);
  }

  /** The flags that recvmsg left in the header. */
  receivedFlags(): number {
    return this.#headerView.getInt32(48, true);
  }

  /** All descriptors that recvmsg delivered, from any number of control messages. */
  receivedFds(): number[] {
    const fds: number[] = [];
    const end = Number(this.#headerView.getBigUint64(40, true));
    for (let at = 0; at + CMSGHDR_BYTES <= end; ) {
      const length = Number(this.#controlView.getBigUint64(at, true));
      if (length < CMSGHDR_BYTES) break;
      const isRights =
        this.#controlView.getInt32(at + 8, true) === SOL_SOCKET &&
        this.#controlView.getInt32(at + 12, true) === SCM_RIGHTS;
      for (let data = at + CMSGHDR_BYTES; isRights && data + 4 <= at + length; data += 4) {
        fds.push(this.#controlView.getInt32(data, true));
      }
      at += Math.ceil(length / 8) * 8;
    }
    return fds;
  }

  #describe(dataLength: number, controlLength: number): void {
    const view = this.#headerView;
    this.header.fill(0);
    view.setBigUint64(16, this.#addresses.iovec, true);
    view.setBigUint64(24, 1n, true);
    view.setBigUint64(32, controlLength === 0 ? 0n : this.#addresses.control, true);
    view.setBigUint64(40, BigInt(controlLength), true);
    view.setBigUint64(MSGHDR_BYTES, this.#addresses.data, true);
    view.setBigUint64(MSGHDR_BYTES + 8, BigInt(dataLength), true);
  }
}

/** A sockaddr_un for a path in the file system. */
export function unixAddress(path: string): Uint8Array {
  return address(Buffer.from(`${path}\0`, "utf8"));
}

/** A sockaddr_un for an abstract name. A zero byte at its end would belong to the name. */
export function abstractAddress(name: string): Uint8Array {
  return address(Buffer.from(`\0${name}`, "utf8"));
}

function address(name: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(new ArrayBuffer(2 + name.byteLength));
  new DataView(bytes.buffer).setUint16(0, AF_UNIX, true);
  bytes.set(name, 2);
  return bytes;
}

export function fitsSocketPath(path: string): boolean {
  return Buffer.byteLength(path, "utf8") <= limits.socketPathBytesMax;
}

/** @throws SOCKET_PATH_TOO_LONG */
export function checkSocketPath(path: string): string {
  if (!fitsSocketPath(path)) {
    const byteLength = Buffer.byteLength(path, "utf8");
    throw new CudaIpcError(
      "SOCKET_PATH_TOO_LONG",
      `Cannot use ${path} as a socket: ${byteLength} bytes, ` +
        `the system takes ${limits.socketPathBytesMax}`,
    );
  }
  if (path === "" || path.includes("\0"))
    throw new TypeError("A socket path must not be empty or hold a zero byte");
  return path;
}
