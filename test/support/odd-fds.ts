/** Descriptors that no hub or client accepts, and some of memory that they accept. */
import { constants, openSync } from "node:fs";
import { tmpdir } from "node:os";
import { koffi } from "../../src/ffi/koffi.js";
import { libc } from "../../src/ffi/libc.js";
import { createConstantFile, createMemoryFile } from "../../src/os/memory-file.js";
import { OwnedFd } from "../../src/os/owned-fd.js";
import { SeqpacketSocket } from "../../src/os/seqpacket.js";

const O_PATH = 0o10000000;
const MFD_CLOEXEC = 1;
const MFD_ALLOW_SEALING = 2;
const MFD_HUGETLB = 4;
const HUGE_PAGE_BYTES = 2 * 1024 * 1024;

export class OddFds {
  readonly all: readonly OwnedFd[];

  constructor() {
    const [one, other] = SeqpacketSocket.pair();
    this.all = [
      one.fd,
      other.fd,
      ...pipe(),
      opened(tmpdir(), constants.O_RDONLY | constants.O_DIRECTORY),
      opened("/dev/null", constants.O_RDWR),
      opened("/dev/zero", constants.O_RDWR),
      opened(process.execPath, constants.O_RDONLY),
      opened(tmpdir(), O_PATH),
      ...memfd(MFD_CLOEXEC | MFD_ALLOW_SEALING, 4096),
      ...memfd(MFD_CLOEXEC, 4096),
      ...memfd(MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB, HUGE_PAGE_BYTES),
      opened(`/proc/self/fd/${one.fd.number}`, O_PATH),
      createMemoryFile("empty", 0),
      createMemoryFile("odd", 4095),
      createConstantFile("odd", Buffer.alloc(100, " ")),
    ];
  }

  [Symbol.dispose](): void {
    for (const fd of this.all) fd.close();
  }
}

function opened(path: string, flags: number): OwnedFd {
  return new OwnedFd(openSync(path, flags));
}

function pipe(): OwnedFd[] {
  const ends = new Int32Array(2);
  const made = koffi().load(null).func("pipe", "int", ["void*"])(ends);
  return made === 0 ? [...ends].map((end) => new OwnedFd(end)) : [];
}

/** Creates unsealed memory; nothing if the system does not have this kind of memory. */
function memfd(flags: number, byteLength: number): OwnedFd[] {
  const number = libc().memfd_create("odd", flags);
  if (number < 0) return [];
  const fd = new OwnedFd(number);
  libc().ftruncate(number, byteLength);
  return [fd];
}
