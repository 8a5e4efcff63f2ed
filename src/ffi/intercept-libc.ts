/**
 * Lets tests intercept every C library call that goes through the table of libc.ts. An interceptor
 * sees the call first and may make it fail. Without an interceptor, calls cost the same as before.
 * It does not see the calls of Node itself (fs, sockets, child processes) or of libraries
 * (libcuda).
 */
import { koffi } from "./koffi.js";
import { type Libc, replaceLibc } from "./libc.js";

export type LibcCall = keyof Libc;

/**
 * Runs before each call, with its arguments. Returns undefined to let the call through, or the
 * errno with which it fails. A failing call is not made. Only `close` and `munmap` are made and
 * then fail, as `close` does in the kernel, so a leak found later is the caller's fault.
 */
export type LibcInterceptor = (call: LibcCall, values: readonly unknown[]) => number | undefined;

type Call = (...values: unknown[]) => unknown;

const MAP_FAILED = 0xffff_ffff_ffff_ffffn;
const MADE_ALL_THE_SAME: ReadonlySet<LibcCall> = new Set(["close", "munmap"]);

let active = false;

/**
 * Sets the interceptor.
 * @returns removes it
 * @throws TypeError if one is set already, because neither of two would see the other's failures
 */
export function interceptLibc(interceptor: LibcInterceptor): () => void {
  if (active) throw new TypeError("Calls of the C library are intercepted already");
  const undo = replaceLibc((real) => {
    const calls = Object.entries(real).map(([name, call]) => [
      name,
      intercepted(name as LibcCall, call, interceptor),
    ]);
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

function intercepted(
  name: LibcCall,
  real: Call & { readonly async?: Call },
  interceptor: LibcInterceptor,
): Call {
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
    if (MADE_ALL_THE_SAME.has(name)) real(...values.slice(0, -1));
    const callback = values.at(-1) as (failure: unknown, result: unknown) => void;
    // WHY errno is set here: it belongs to this thread, and the event loop used it in between.
    setImmediate(() => callback(null, failed(name, errno)));
  };
  return Object.assign(call, { async: callLater });
}

/** Sets errno, and returns the result of a failed call. */
function failed(name: LibcCall, errno: number): unknown {
  koffi().errno(errno);
  return name === "mmap" ? MAP_FAILED : -1;
}
