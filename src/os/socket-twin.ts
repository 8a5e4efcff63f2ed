/**
 * The twin of a hub's socket: an abstract address, which needs no file. A hub holds it for as long
 * as it lives, so that no second one starts while its folder is gone. It listens there only once it
 * cannot have a socket file: every user of the machine may connect to such an address.
 *
 *   cuda-ipc/MOUNTS/HASH   the number of the mount namespace, as paths mean something else in
 *                          another one, and FNV-1a (64 bits) of the socket's path, in hex
 */
import { readFileSync, statSync } from "node:fs";
import { lastErrno, libc } from "../ffi/libc.js";
import type { OwnedFd } from "./owned-fd.js";
import { openSocket, SeqpacketSocket } from "./seqpacket.js";
import { SeqpacketListener } from "./seqpacket-listener.js";
import { abstractAddress } from "./socket-layout.js";
import { errnos } from "./system-error.js";

/** Takes the address, without listening. Undefined if another process has it, or without /proc. */
export function tryHoldTwin(socketPath: string): SeqpacketListener | undefined {
  return withSocket(socketPath, (fd, address) =>
    libc().bind(fd.number, address, address.byteLength) < 0
      ? undefined
      : SeqpacketListener.bound(fd),
  );
}

/**
 * Connects to the hub of a trusted user. Undefined if none listens there. "crowded" if the queue of
 * connections is full: then nothing tells whose it is.
 */
export function tryConnectTwin(
  socketPath: string,
  trusted: ReadonlySet<number>,
): SeqpacketSocket | "crowded" | undefined {
  let isCrowded = false;
  const connected = withSocket(socketPath, (fd, address) => {
    if (libc().connect(fd.number, address, address.byteLength) < 0) {
      isCrowded = lastErrno() === errnos.EAGAIN;
      return undefined;
    }
    const socket = new SeqpacketSocket(fd);
    // Anybody can take the address first. Nobody has to hear of that here.
    return trusted.has(socket.peerCredentials().uid) ? socket : undefined;
  });
  return isCrowded ? "crowded" : connected;
}

/** Whether a process has the address, whether it listens or not. */
export function isTwinHeld(socketPath: string): boolean {
  const name = twinName(socketPath);
  if (name === undefined) return false;
  try {
    return readFileSync("/proc/net/unix", "latin1").includes(` @${name}\n`);
  } catch {
    return false;
  }
}

/** Closes the socket unless `use` makes something of it. */
function withSocket<T>(
  socketPath: string,
  use: (fd: OwnedFd, address: Uint8Array) => T | undefined,
): T | undefined {
  const name = twinName(socketPath);
  if (name === undefined) return undefined;
  const fd = openSocket();
  let result: T | undefined;
  try {
    result = use(fd, abstractAddress(name));
  } finally {
    if (result === undefined) fd.close();
  }
  return result;
}

/** Undefined without /proc. */
export function twinName(socketPath: string): string | undefined {
  try {
    const mounts = statSync("/proc/self/ns/mnt", { bigint: true }).ino;
    return `cuda-ipc/${mounts}/${hash(socketPath)}`;
  } catch {
    return undefined;
  }
}

function hash(text: string): string {
  let value = 0xcbf29ce484222325n;
  for (const byte of Buffer.from(text, "utf8"))
    value = BigInt.asUintN(64, (value ^ BigInt(byte)) * 0x100000001b3n);
  return value.toString(16).padStart(16, "0");
}
