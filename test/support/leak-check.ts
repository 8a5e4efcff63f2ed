/**
 * Compares what this process holds before and after a test: there must be no more descriptors,
 * mappings and buffers than before.
 */
import assert from "node:assert/strict";
import { readdirSync, readlinkSync, watch } from "node:fs";
import { tmpdir } from "node:os";
import { afterEach, beforeEach } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { openBufferCount } from "../../src/gpu/memory/open-buffers.js";
import { FdWatch } from "../../src/os/fd-watch.js";
import { mappedBytes } from "../../src/os/mapping.js";
import { openFdCount } from "../../src/os/owned-fd.js";
import { SeqpacketSocket } from "../../src/os/seqpacket.js";

/** Far longer than any release takes. */
const LEFT_OVER_MS = 60_000;

export interface Held {
  /** Descriptors of the process with their kind, such as `17 socket`. */
  readonly fds: readonly string[];
  readonly ownedFds: number;
  readonly mappedBytes: number;
  readonly buffers: number;
}

export function held(): Held {
  return {
    fds: openFds(),
    ownedFds: openFdCount(),
    mappedBytes: mappedBytes(),
    buffers: openBufferCount(),
  };
}

/**
 * WHY through flags: only garbage collection unmaps views of memory, and tests run without
 * --expose-gc.
 */
setFlagsFromString("--expose-gc");
export const collect = runInNewContext("gc") as () => void;

/**
 * Objects that finalizers found. An object that only the garbage collector closes is a leak too.
 */
const reported: string[] = [];
process.on("warning", (warning) => {
  if (warning.name === "CudaIpcLeak") reported.push(warning.message);
});

/**
 * Waits until the process holds no more than before, and fails at the deadline. WHY wait: libuv
 * closes handles one turn of the event loop later. WHY not the same: what an earlier test has given
 * up may be freed during this one.
 */
export async function assertHeld(before: Held, deadlineMs: number = LEFT_OVER_MS): Promise<void> {
  const endMs = performance.now() + deadlineMs;
  for (;;) {
    const now = comparable(held());
    if (isWithin(now, comparable(before))) break;
    if (performance.now() >= endMs)
      assert.deepEqual(now, comparable(before), "something was left over");
    if (now.mappedBytes !== before.mappedBytes) collect();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assert.deepEqual(reported.splice(0), [], "something was forgotten");
}

function isWithin(now: Partial<Held>, before: Partial<Held>): boolean {
  const { fds = [], ...counted } = now;
  const known = new Set(before.fds);
  const counts = Object.keys(counted) as (keyof typeof counted)[];
  return (
    fds.every((fd) => known.has(fd)) &&
    counts.every((count) => (now[count] ?? 0) <= (before[count] ?? 0))
  );
}

/**
 * WHY without descriptors if libcuda is in use: it opens and closes its own at any time. `ownedFds`
 * still counts ours.
 */
function comparable({ fds, ...counted }: Held): Partial<Held> {
  return usesCuda() ? counted : { fds, ...counted };
}

function usesCuda(): boolean {
  return openFds().some((fd) => fd.includes(" /dev/nvidia"));
}

/**
 * Checks each test of the calling file or suite for leaks.
 * @param cleanUp runs after each test, before the comparison
 */
export function checkLeaks(cleanUp: () => void | Promise<void> = () => {}): void {
  let before: Held;
  beforeEach(() => {
    warmUp();
    before = held();
  });
  afterEach(async () => {
    await cleanUp();
    await assertHeld(before);
  });
}

/** Opens what stays open until the process ends: the libraries and what they hold. */
export function warmUp(): void {
  const [one, other] = SeqpacketSocket.pair();
  new FdWatch(one.fd, () => {}).close();
  one.close();
  other.close();
  // Node's first watch of a file opens a descriptor that all later watches share.
  watch(tmpdir()).close();
}

function openFds(): string[] {
  return readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      return [`${fd} ${readlinkSync(`/proc/self/fd/${fd}`).replace(/:\[\d+\]$/, "")}`];
    } catch {
      // This was the descriptor of the folder itself. It is closed by now.
      return [];
    }
  });
}
