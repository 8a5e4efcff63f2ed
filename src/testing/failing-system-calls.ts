/**
 * The n-th system call fails, for tests that go through every n: whatever fails, nothing may be left behind. Of the calls that this
 * package makes by way of the C library; what Node calls for its own functions is not among them.
 */
import { interceptLibc, type LibcCall } from "../ffi/intercept-libc.js";
import { errnosOf } from "./system-call-errnos.js";

export type SystemCall = LibcCall;

export interface FailingSystemCallOptions {
  /** The number of the call that fails, counted from 1; none where it is larger than the number of calls. */
  readonly failAt: number;
  /** Which calls are counted; by default all that can fail. */
  readonly only?: readonly SystemCall[];
  /** The errno that it fails with; by default the likeliest that this call can really give. */
  readonly errno?: number | ((call: SystemCall) => number);
}

export interface FailingSystemCall {
  /** Counted calls so far. */
  readonly calls: number;
  /** The call that failed, or undefined while none has: the test has then gone through every n. */
  readonly failed: SystemCall | undefined;
  /** From here on nothing fails and nothing is counted. */
  undo(): void;
  [Symbol.dispose](): void;
}

/**
 * Makes one system call of this thread fail. `close` and `munmap` are made and then fail; others fail instead of being made.
 * @throws TypeError while another is set
 */
export function failSystemCall(options: FailingSystemCallOptions): FailingSystemCall {
  const counted = options.only === undefined ? undefined : new Set(options.only);
  const state: { calls: number; failed: SystemCall | undefined } = { calls: 0, failed: undefined };
  const undo = interceptLibc((call, values) => {
    const [likeliest] = errnosOf(call, values);
    if (counted === undefined ? likeliest === undefined : !counted.has(call)) return undefined;
    state.calls += 1;
    if (state.calls !== options.failAt) return undefined;
    const errno = typeof options.errno === "function" ? options.errno(call) : (options.errno ?? likeliest);
    if (errno === undefined) throw new TypeError(`${call} cannot fail: name an errno for it`);
    state.failed = call;
    return errno;
  });
  return {
    get calls() {
      return state.calls;
    },
    get failed() {
      return state.failed;
    },
    undo,
    [Symbol.dispose]: undo,
  };
}
