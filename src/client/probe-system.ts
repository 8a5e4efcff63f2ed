/** Tries what sharing needs of the operating system, for `doctor`. */
import { accessSync, constants, existsSync, fstatSync } from "node:fs";
import { dirname } from "node:path";
import { CudaIpcError } from "../base/errors.js";
import { Scope } from "../base/scope.js";
import { addressOf } from "../os/host-memory.js";
import { createMemoryFile, inspectMemoryFile } from "../os/memory-file.js";
import { openPidfd } from "../os/process-watch.js";
import {
  checkCommonFolder,
  checkRuntimeFolder,
  folderOwner,
  ownUid,
} from "../os/runtime-folder.js";
import { SeqpacketSocket } from "../os/seqpacket.js";
import { fromNodeError } from "../os/system-error.js";
import { trustedUids } from "./connection/hub-trust.js";

export { serviceOf } from "../os/control-group.js";

export interface SystemProbe {
  readonly name: string;
  /** Returns what was found, in words. Throws why it does not work. */
  run(): string;
}

export const systemProbes: readonly SystemProbe[] = [
  { name: "memory files", run: probeMemoryFile },
  { name: "sockets", run: probeSocket },
  { name: "process watch", run: probeProcessWatch },
];

const PROBE_BYTES = 4096;

/** @throws UNSUPPORTED if koffi cannot be loaded: then nothing else works */
export function probeNativeCalls(): void {
  addressOf(new Uint8Array(1));
}

/**
 * Checks that the folder of this socket exists and is safe.
 * @throws UNSAFE_RUNTIME_DIR
 */
export function probeRuntimeFolder(socketPath: string): string {
  const owner = folderOwner(socketPath);
  // Without a socket a hub must be started, and that needs a folder of this user.
  if (owner === undefined || (owner === ownUid() && !existsSync(socketPath))) {
    const isThere = checkRuntimeFolder(socketPath);
    checkWritable(dirname(socketPath));
    return isThere ? "there, and yours alone" : "not there yet; made when it is needed";
  }
  checkCommonFolder(socketPath, trustedUids());
  return owner === ownUid() ? "there, and yours" : `there, of user ${owner}, whose hub is trusted`;
}

/** For a missing folder: the one that it would be created in. */
function checkWritable(folder: string): void {
  let found = folder;
  while (!existsSync(found)) found = dirname(found);
  try {
    accessSync(found, constants.W_OK);
  } catch (error) {
    throw fromNodeError(`write to the folder ${found}`, error);
  }
}

function probeMemoryFile(): string {
  using file = createMemoryFile("cuda-ipc-probe", PROBE_BYTES);
  const { byteLength, sizeSealed } = inspectMemoryFile(file);
  if (byteLength === PROBE_BYTES && sizeSealed) return "made one (memfd) and sealed its size";
  throw new CudaIpcError(
    "UNSUPPORTED",
    "Cannot seal the size of a memory file: the system ignores the seal",
  );
}

function probeSocket(): string {
  const scope = new Scope();
  try {
    const [sender, receiver] = SeqpacketSocket.pair();
    for (const socket of [sender, receiver]) scope.defer(() => socket.close());
    const file = scope.own(createMemoryFile("cuda-ipc-probe", PROBE_BYTES), (fd) => fd.close());
    sender.trySend(new TextEncoder().encode("probe"), [file]);
    const packet = receiver.tryReceive();
    if (packet === undefined || packet === "end" || packet.damage !== undefined) {
      throw new CudaIpcError(
        "UNSUPPORTED",
        "Cannot send a file descriptor over a SEQPACKET socket: it did not arrive",
      );
    }
    for (const fd of packet.fds) scope.defer(() => fd.close());
    const [arrived] = packet.fds;
    if (arrived === undefined || fstatSync(arrived.number).ino !== fstatSync(file.number).ino) {
      throw new CudaIpcError(
        "UNSUPPORTED",
        "Cannot send a file descriptor over a SEQPACKET socket: another one arrived",
      );
    }
    return "sent a file descriptor over a SEQPACKET socket";
  } finally {
    scope.close();
  }
}

function probeProcessWatch(): string {
  const [first, second] = SeqpacketSocket.pair();
  try {
    using peer = first.peerPidfd();
    if (peer !== undefined) return "the kernel names the process behind a socket (SO_PEERPIDFD)";
    using own = openPidfd(process.pid);
    if (own !== undefined)
      return "processes are watched by number (pidfd_open; SO_PEERPIDFD needs Linux 6.5)";
  } finally {
    first.close();
    second.close();
  }
  throw new CudaIpcError(
    "UNSUPPORTED",
    "Cannot watch processes: there is no pidfd here (Linux 5.3 has it)",
  );
}
