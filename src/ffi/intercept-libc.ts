/**
 * For tests: something in front of every call of the C library that is made through the table of libc.ts. It sees the call, may do
 * what it wants before it is made, and may have it fail. While none is set, calls cost what they cost.
 * Not covered: what Node itself calls (its fs functions, its own sockets, child processes) and what libraries call (libcuda).
 */
import { koffi } from "./koffi.js";
import { type Libc, replaceLibc } from "./libc.js";

export type LibcCall = keyof Libc;

/**
 * Called before each call, with its arguments. The errno with which the call is to fail, or undefined, which lets it be made.
 * What fails is not made, but for `close` and `munmap`: those are made and then fail, as the kernel does with `close`, so that
 * what is left afterwards is the caller's doing.
 */
export type LibcInterceptor = (call: LibcCall, values: readonly unknown[]) => number | undefined;

type Call = (...values: unknown[]) => unknown;

const MAP_FAILED = 0xffff_ffff_ffff_ffffn;
const MADE_ALL_THE_SAME: ReadonlySet<LibcCall> = new Set(["close", "munmap"]);

let active = false;

/**
 * @returns takes the interceptor away again
 * @throws TypeError where one is set already: of two, neither would see what the other lets fail
 */
export function interceptLibc(interceptor: LibcInterceptor): () => void {
  if (active) throw new TypeError("Calls of the C library are intercepted already");
  const undo = replaceLibc((real) => {
    const calls = Object.entries(real).map(([name, call]) => [name, intercepted(name as LibcCall, call, interceptor)]);
    return Object.fromEntries(calls) as Libc;
  });
  active = true;
  let set = true;
  return () => {
    if (!set) return;
    set = false;
    active = false;
    undo();
  };
}

function intercepted(name: LibcCall, real: Call & { readonly async?: Call }, interceptor: LibcInterceptor): Call {
  const call = (...values: unknown[]): unknown => {
    const errno = interceptor(name, values);
    if (errno === undefined) return real(...values);
    if (MADE_ALL_THE_SAME.has(name)) real(...values);
    return failed(name, errno);
  };
  const { async: realLater } = real;
  if (realLater === undefined) return call;
  const callLater = (...values: unknown[]): void => {
    const errno = interceptor(name, values);
    if (errno === undefined) {
      realLater(...values);
      return;
    }
    const callback = values.at(-1) as (failure: unknown, result: unknown) => void;
    // WHY errno within: it is the one of this thread, which the event loop has used in between.
    setImmediate(() => callback(null, failed(name, errno)));
  };
  return Object.assign(call, { async: callLater });
}

/** What a call that failed returns, and where it leaves its errno. */
function failed(name: LibcCall, errno: number): unknown {
  koffi().errno(errno);
  return name === "mmap" ? MAP_FAILED : -1;
}
