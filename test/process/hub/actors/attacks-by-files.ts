/** Attacks by memory files, and by the files of the hub. */
import { closeSync, openSync, readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { limits } from "../../../../src/base/limits.js";
import { libc } from "../../../../src/ffi/libc.js";
import { createMemoryFile } from "../../../../src/os/memory-file.js";
import { OwnedFd } from "../../../../src/os/owned-fd.js";
import { say } from "../../../support/actor-side.js";
import { hostArray, hostBundle, timelineDescriptor } from "../../../support/messages.js";
import { type Attack, lasting, memory, own, type Step, socketPath } from "./attack-wire.js";

const PAGE = 4096;
const PROT_READ_WRITE = 3;
const MAP_SHARED = 1;
const FALLOC_KEEP_SIZE = 1;
const FALLOC_PUNCH_HOLE = 2;
const MFD_CLOEXEC_AND_SEALING = 3;
const F_ADD_SEALS = 1033;
const F_OFD_SETLK = 37;
const LOCK_EX_NB = 6;
const ALL_SIZE_SEALS = 7;
/** With this many mappings of a page, a hole in it takes some milliseconds. */
const MAPPINGS = 2000;

/** Ends timelines, and punches holes into their file while the hub writes the ends. */
function holes(): Step {
  const byteLength = limits.timelineMemoryBytesMax;
  const file = createMemoryFile(own, byteLength);
  const mappings = Array.from({ length: MAPPINGS }, () =>
    libc().mmap(null, PAGE, PROT_READ_WRITE, MAP_SHARED, file.number, 0),
  );
  const punch = () => {
    for (const mapping of mappings) libc().memset(mapping, 0, 1);
    libc().fallocate(file.number, FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, 0, byteLength);
  };
  const descriptor = { ...timelineDescriptor, byteLength, allocationByteLength: byteLength };
  const fields = { op: "create", name: `${own}-timeline`, lifetime: "held", descriptor };
  const wire = lasting(() => {});
  let count = 0;
  return () => {
    count += 1;
    const hub = wire();
    const lease = hub.share({ ...fields, name: `${own}-timeline-${count}` }, [file]);
    if (lease === undefined) return;
    const asked = hub.send({ op: "release", lease });
    punch();
    if (asked !== undefined) hub.reply();
  };
}

/** Claims less than a file has: behind its end, behind what is claimed, in an index. */
function longer(): Step {
  const long = createMemoryFile(own, 2 ** 30);
  const hidden = new OwnedFd(libc().memfd_create(own, MFD_CLOEXEC_AND_SEALING));
  libc().ftruncate(hidden.number, PAGE);
  libc().fallocate(hidden.number, FALLOC_KEEP_SIZE, 0, 2 ** 20);
  libc().fcntl(hidden.number, F_ADD_SEALS, ALL_SIZE_SEALS);
  const claims = [
    { descriptor: hostArray, fds: [long] },
    { descriptor: hostArray, fds: [hidden] },
    { descriptor: hostBundle(1, 64), fds: [memory, long] },
    { descriptor: timelineDescriptor, fds: [long] },
  ];
  const wire = lasting(() => {});
  return () => {
    for (const { descriptor, fds } of claims) {
      const name = `${own}-longer`;
      const found = wire().ask({ op: "create", name, lifetime: "held", descriptor }, fds);
      if (found?.lease !== undefined)
        say({ fault: `the hub took a longer file as ${JSON.stringify(descriptor)}` });
    }
  };
}

/** Locks the hub's lock file, and changes the folder, as far as another user can. */
function locks(): Step {
  const lock = `${socketPath}.lock`;
  const folder = dirname(socketPath);
  const wire = lasting(() => {});
  return () => {
    for (const flags of ["r", "r+"]) {
      withFile(lock, flags, (fd) => {
        // WHY not only a look: a lock that another user can take keeps the next hub from starting.
        if (libc().flock(fd, LOCK_EX_NB) === 0) say({ fault: "another user has the hub's lock" });
        libc().fcntl_lock(fd, F_OFD_SETLK, new Uint8Array(32));
      });
    }
    for (const name of attempt(() => readdirSync(folder)) ?? []) {
      attempt(() => statSync(join(folder, name)));
      withFile(join(folder, name), "r", () => {});
    }
    withFile(join(folder, own), "w", () =>
      say({ fault: "another user wrote to the hub's folder" }),
    );
    wire().ask({ op: "status" });
  };
}

function withFile(path: string, flags: string, use: (fd: number) => void): void {
  const fd = attempt(() => openSync(path, flags));
  if (fd === undefined) return;
  use(fd);
  closeSync(fd);
}

/** Undefined if this user may not do it. */
function attempt<T>(what: () => T): T | undefined {
  try {
    return what();
  } catch {
    return undefined;
  }
}

export const attacksByFiles: Readonly<Record<string, Attack>> = { holes, longer, locks };
