/**
 * Makes the n-th system call of src in this thread fail, or runs something before it. It counts
 * calls of the C library and of Node's fs. They are synchronous, so the hook runs exactly there.
 */
import { readdirSync } from "node:fs";
import { interceptLibc } from "../../src/ffi/intercept-libc.js";
import { koffi } from "../../src/ffi/koffi.js";
import { interceptFs } from "./intercept-fs.js";
import { errnosOf } from "./system-call-errnos.js";

export interface SystemCallSeen {
  readonly name: string;
  /** The errnos that it can really fail with; none if it cannot fail. */
  readonly errnos: readonly number[];
}

export interface NthSystemCall {
  /** Counted calls so far. */
  readonly calls: number;
  /** The n-th call; undefined until it is made. */
  readonly hit: SystemCallSeen | undefined;
  /** Stops counting. */
  [Symbol.dispose](): void;
}

export interface AtSystemCallOptions {
  /** Also count calls that cannot fail. */
  readonly all?: boolean;
}

/**
 * Calls `act` at the n-th call, counted from 1, before it is made.
 * @param act returns the errno of the call, or undefined to let it run
 */
export function atSystemCall(
  n: number,
  act: (call: SystemCallSeen) => number | undefined,
  options: AtSystemCallOptions = {},
): NthSystemCall {
  const state: { calls: number; hit: SystemCallSeen | undefined } = { calls: 0, hit: undefined };
  const see = (call: SystemCallSeen): number | undefined => {
    state.calls += 1;
    if (state.calls !== n) return undefined;
    state.hit = call;
    return act(call);
  };
  const armed = onSystemCalls(see, options);
  return {
    get calls() {
      return state.calls;
    },
    get hit() {
      return state.hit;
    },
    [Symbol.dispose]: () => armed[Symbol.dispose](),
  };
}

/** Calls `see` before each system call, which fails with the errno that it returns. */
export function onSystemCalls(
  see: (call: SystemCallSeen) => number | undefined,
  { all = false }: AtSystemCallOptions = {},
): Disposable {
  const seeOne = (call: SystemCallSeen) =>
    call.errnos.length === 0 && !all ? undefined : see(call);
  const undo = [
    interceptLibc((name, values) => seeOne({ name, errnos: errnosOf(name, values) })),
    interceptFs((name, errnos) => seeOne({ name, errnos })),
  ];
  return {
    [Symbol.dispose]: () => {
      for (const each of undo.splice(0)) each();
    },
  };
}

/** `cut` shuts down the sockets of this package, as if the other side had hung up. */
export type SystemCallAction = "SIGKILL" | "SIGSTOP" | "cut";

/**
 * For actors: dies, stops or loses its connections before the n-th call. Counts calls that cannot
 * fail too.
 */
export function actAtSystemCall(n: number, action: SystemCallAction): NthSystemCall {
  const act = () => {
    if (action === "cut") cutSockets();
    else process.kill(process.pid, action);
    return undefined;
  };
  return atSystemCall(n, act, { all: true });
}

const SOL_SOCKET = 1;
const SO_TYPE = 3;
const SO_ACCEPTCONN = 30;
const SOCK_SEQPACKET = 5;
const SHUT_RDWR = 2;
const ADDRESS_BYTES = 110;
/** The length of a socket address without a name. */
const FAMILY_BYTES = 2;

/**
 * Shuts down every connected SEQPACKET socket of this process. All of them are of this package,
 * because Node makes none.
 */
export function cutSockets(
  fds: readonly number[] = readdirSync("/proc/self/fd").map(Number),
): void {
  // WHY not through libc(): calls of a test must not be counted.
  const library = koffi().load(null);
  const getsockopt = library.func("getsockopt", "int", ["int", "int", "int", "void*", "void*"]);
  const shutdown = library.func("shutdown", "int", ["int", "int"]);
  const option = (fd: number, name: number): number | undefined => {
    const value = new Int32Array(new ArrayBuffer(4));
    const length = new Uint32Array(new ArrayBuffer(4)).fill(4);
    return getsockopt(fd, SOL_SOCKET, name, value, length) < 0 ? undefined : value[0];
  };
  const names = ["getsockname", "getpeername"].map((name) =>
    library.func(name, "int", ["int", "void*", "void*"]),
  );
  // WHY not pairs: they lead to a child, such as the hub's gate, and only the child's end cuts
  // them.
  const isPair = (fd: number) =>
    names.every((nameOf) => {
      const length = new Uint32Array(new ArrayBuffer(4)).fill(ADDRESS_BYTES);
      return (
        nameOf(fd, new Uint8Array(new ArrayBuffer(ADDRESS_BYTES)), length) < 0 ||
        length[0] === FAMILY_BYTES
      );
    });
  for (const fd of fds) {
    const isConnection = option(fd, SO_TYPE) === SOCK_SEQPACKET && option(fd, SO_ACCEPTCONN) === 0;
    if (isConnection && !isPair(fd)) shutdown(fd, SHUT_RDWR);
  }
}
