/**
 * Runs inside each process of the matrix. The test says over IPC what happens at a given system
 * call. Either this call and all later ones fail with an errno, or the process dies, stops or loses
 * its connections before it.
 */
import { constants } from "node:os";
import { interceptLibc } from "../../../src/ffi/intercept-libc.js";
import { interceptFs } from "../intercept-fs.js";
import { errnosOf } from "../system-call-errnos.js";
import { cutSockets } from "../system-calls.js";

export type SeamAction = "SIGKILL" | "SIGSTOP" | "cut" | "count" | "ENOSPC" | "ENOMEM";

export interface SeamCounts {
  /** Calls since it was armed. */
  readonly calls: number;
  /** Calls at which something happened. */
  readonly hits: number;
}

/**
 * WHY messages never fail with ENOMEM: a process that cannot send or receive is like one with a cut
 * socket. WHY not munmap: it runs even if it fails. Tests in test/fault fail each of them alone.
 */
const SPARED = new Set(["sendmsg", "recvmsg", "poll", "munmap"]);

/** More descriptors than any process of the matrix has. */
const FDS_MAX = 1024;

interface Armed {
  calls: number;
  hits: number;
  undo(): void;
}

let armed: Armed | undefined;

/** @param at the number of the call, counted from 1 */
export function arm(action: SeamAction, at: number): void {
  disarm();
  const state: Armed = { calls: 0, hits: 0, undo: () => {} };
  const see = (name: string, errnos: readonly number[]): number | undefined => {
    state.calls += 1;
    if (action === "ENOSPC" || action === "ENOMEM") {
      const errno = constants.errno[action];
      if (state.calls < at || !errnos.includes(errno) || SPARED.has(name)) return undefined;
      state.hits += 1;
      return errno;
    }
    if (state.calls !== at || action === "count") return undefined;
    state.hits += 1;
    if (action === "cut") cutNow();
    else process.kill(process.pid, action);
    return undefined;
  };
  const undoLibc = interceptLibc((name, values) => see(name, errnosOf(name, values)));
  const undoFs = interceptFs(see);
  state.undo = () => {
    undoFs();
    undoLibc();
  };
  armed = state;
}

export function disarm(): SeamCounts {
  const { calls = 0, hits = 0 } = armed ?? {};
  armed?.undo();
  armed = undefined;
  return { calls, hits };
}

/** WHY every possible number: listing the open ones needs a descriptor, and is a counted call. */
export function cutNow(): void {
  cutSockets(Array.from({ length: FDS_MAX }, (_, fd) => fd));
}
