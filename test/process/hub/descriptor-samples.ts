/** Descriptors of every kind, to send to a hub. */
import assert from "node:assert/strict";
import { constants, mkdirSync, openSync } from "node:fs";
import { koffi } from "../../../src/ffi/koffi.js";
import { libc } from "../../../src/ffi/libc.js";
import { createBell } from "../../../src/os/bell.js";
import { createMemoryFile } from "../../../src/os/memory-file.js";
import { OwnedFd } from "../../../src/os/owned-fd.js";
import { openPidfd } from "../../../src/os/process-watch.js";
import { SeqpacketSocket } from "../../../src/os/seqpacket.js";
import type { TestFolder } from "../../support/test-folder.js";
import { LingeringSockets, skipFuse, WaitingFile } from "../../support/waiting-fds.js";

const F_ADD_SEALS = 1033;
/** F_SEAL_SHRINK and F_SEAL_GROW. */
const SIZE_SEALS = 6;
const MFD_ALLOW_SEALING = 2;
const MFD_HUGETLB = 4;
const HUGE_PAGE_BYTES = 2 * 1024 * 1024;
const O_PATH = 0o10000000;
const CLOCK_MONOTONIC = 1;

/** Descriptors of one kind. */
export interface Source {
  next(): OwnedFd;
  /** Called with each descriptor after it was sent. */
  sent(fd: OwnedFd): void;
  close(): Promise<void>;
}

export interface Kind {
  readonly open: (folder: TestFolder) => Source | Promise<Source>;
  /**
   * The operations that accept this kind. A bell is accepted only as a bell. The hub cannot tell
   * GPU memory from other memory files.
   */
  readonly fits?: RegExp;
  readonly skip?: string | false;
}

function each(make: (folder: TestFolder) => OwnedFd): Kind["open"] {
  return (folder) => {
    return { next: () => make(folder), sent: (fd) => fd.close(), close: async () => {} };
  };
}

async function lingering(): Promise<Source> {
  const sockets = await LingeringSockets.open();
  const kept: OwnedFd[] = [];
  const close = async () => {
    sockets[Symbol.dispose]();
    for (const fd of kept) fd.close();
  };
  const next = () => {
    const fd = sockets.make();
    kept.push(fd);
    return fd;
  };
  return { next, sent: (fd) => fd.close(), close };
}

async function fuse(folder: TestFolder): Promise<Source> {
  const path = folder.file("fuse");
  mkdirSync(path);
  const file = await WaitingFile.open(path);
  return { next: () => file.fd, sent: () => {}, close: () => file[Symbol.asyncDispose]() };
}

function memory(flags: number, byteLength: number, seals: number): OwnedFd {
  const fd = new OwnedFd(libc().memfd_create("kind", flags));
  assert.equal(libc().ftruncate(fd.number, byteLength), 0);
  if (seals !== 0) assert.equal(libc().fcntl(fd.number, F_ADD_SEALS, seals), 0);
  return fd;
}

function hugePagesMissing(): string | false {
  const number = libc().memfd_create("huge", MFD_HUGETLB);
  if (number >= 0) libc().close(number);
  return number < 0 && "the system has no memory files in huge pages";
}

function opened(path: string, flags: number): OwnedFd {
  return new OwnedFd(openSync(path, flags));
}

function asPath(fd: OwnedFd): OwnedFd {
  try {
    return opened(`/proc/self/fd/${fd.number}`, O_PATH);
  } finally {
    fd.close();
  }
}

function timer(): OwnedFd {
  return new OwnedFd(
    koffi().load(null).func("timerfd_create", "int", ["int", "int"])(CLOCK_MONOTONIC, 0),
  );
}

function pipeEnd(end: 0 | 1): OwnedFd {
  const ends = new Int32Array(2);
  assert.equal(koffi().load(null).func("pipe", "int", ["void*"])(ends), 0);
  libc().close(ends[1 - end] as number);
  return new OwnedFd(ends[end] as number);
}

function socketEnd(): OwnedFd {
  const [one, other] = SeqpacketSocket.pair();
  other.close();
  return one.fd;
}

function ownPidfd(): OwnedFd {
  const fd = openPidfd(process.pid);
  assert.ok(fd !== undefined);
  return fd;
}

const GPU = /GPU|pool/;

export const kinds: Readonly<Record<string, Kind>> = {
  "a TCP socket with unsent data and SO_LINGER": { open: lingering },
  "a Unix socket": { open: each(socketEnd) },
  "the reading end of a pipe": { open: each(() => pipeEnd(0)) },
  "the writing end of a pipe": { open: each(() => pipeEnd(1)) },
  "a FUSE file whose server does not answer": { open: fuse, skip: skipFuse },
  "a folder": {
    open: each(({ path }) => opened(path, constants.O_RDONLY | constants.O_DIRECTORY)),
  },
  "/dev/null": { open: each(() => opened("/dev/null", constants.O_RDWR)) },
  "an eventfd": { open: each(createBell), fits: /bell/ },
  "an eventfd opened as a path": { open: each(() => asPath(createBell())) },
  "a timerfd": { open: each(timer) },
  "an inotify instance": { open: each(() => new OwnedFd(libc().inotify_init1(0))) },
  "an epoll instance": { open: each(() => new OwnedFd(libc().epoll_create1(0))) },
  "a pidfd": { open: each(ownPidfd) },
  "a regular file": { open: each(() => opened(process.execPath, constants.O_RDONLY)) },
  "memory without seals": { open: each(() => memory(MFD_ALLOW_SEALING, 4096, 0)), fits: GPU },
  "memory opened as a path": { open: each(() => asPath(createMemoryFile("kind", 4096))) },
  "memory in huge pages": {
    open: each(() => memory(MFD_ALLOW_SEALING | MFD_HUGETLB, HUGE_PAGE_BYTES, SIZE_SEALS)),
    fits: GPU,
    skip: hugePagesMissing(),
  },
  "sealed memory that is too small": {
    open: each(() => memory(MFD_ALLOW_SEALING, 64, SIZE_SEALS)),
    fits: GPU,
  },
};
