/**
 * Bounds a system call that another process can make wait, if the call has no form that never
 * waits. A timer of the kernel sends a signal to this thread each millisecond, so the call ends
 * with EINTR.
 * WHY no thread of the pool: a thread that waits cannot be stopped, and the process cannot exit
 * while it waits. WHY a repeated signal: the first can arrive before the call begins to wait.
 * https://man7.org/linux/man-pages/man2/timer_create.2.html
 *   sigevent (64)    value 0:8  signal 8:4  notify 12:4  thread 16:4
 *   itimerspec (32)  interval: seconds 0:8  nanoseconds 8:8, first: seconds 16:8  nanoseconds 24:8
 *   sigaction (152)  handler 0:8  mask 8:128  flags 136:4  restorer 144:8
 */
import { harmlessHandler, libc } from "../ffi/libc.js";
import { addressOf } from "./host-memory.js";

const NS_BETWEEN_SIGNALS = 1_000_000n;
const CLOCK_MONOTONIC = 1n;
const SIGEV_THREAD_ID = 4;
const SIG_UNBLOCK = 1n;
const SIGNAL_SET_BYTES = 8n;
/** Handlers of the Go runtime, if a library brings it, require this flag of all handlers. */
const SA_ONSTACK = 0x0800_0000;
const SIGACTION_BYTES = 152;
const SIGACTION_FLAGS_AT = 136;
/** Real-time signals that neither a C library nor Node uses. The first unused one is taken. */
const SIGNALS = [60, 59, 58, 57, 56, 55];
const TIMER_AT = 64;
const TIMES_AT = 72;
const SIGNAL_SET_AT = 104;

/** AArch64 uses the generic table of Linux. */
const numbers =
  process.arch === "arm64"
    ? { create: 107, set: 110, remove: 111, mask: 135, thread: 178 }
    : { create: 222, set: 223, remove: 226, mask: 14, thread: 186 };

interface Timer {
  readonly view: DataView;
  readonly address: bigint;
}

let timer: Timer | "refused" | undefined;

/**
 * Runs a function that makes one system call. The call ends with EINTR after one or two
 * milliseconds. If the system has no timers or the process no free signal, the call is not bounded.
 */
export function interrupted<Result>(call: () => Result): Result {
  timer ??= setUp() ?? "refused";
  if (timer === "refused") return call();
  const { view, address } = timer;
  const at = (offset: number) => address + BigInt(offset);
  const run = (number: number, first: bigint, second = 0n, third = 0n): number =>
    libc().kernel(number, first, second, third, 0n, 0n, 0n);
  if (run(numbers.create, CLOCK_MONOTONIC, address, at(TIMER_AT)) < 0) return call();
  const id = BigInt(view.getInt32(TIMER_AT, true));
  try {
    run(numbers.set, id, 0n, at(TIMES_AT));
    return call();
  } finally {
    run(numbers.remove, id);
  }
}

function setUp(): Timer | undefined {
  const signal = SIGNALS.find(takeSignal);
  if (signal === undefined) return undefined;
  const memory = new Uint8Array(new ArrayBuffer(SIGNAL_SET_AT + Number(SIGNAL_SET_BYTES)));
  const view = new DataView(memory.buffer);
  const address = addressOf(memory);
  view.setInt32(8, signal, true);
  view.setInt32(12, SIGEV_THREAD_ID, true);
  view.setInt32(16, libc().syscall(numbers.thread, 0, 0), true);
  view.setBigInt64(TIMES_AT + 8, NS_BETWEEN_SIGNALS, true);
  view.setBigInt64(TIMES_AT + 24, NS_BETWEEN_SIGNALS, true);
  view.setBigUint64(SIGNAL_SET_AT, 1n << BigInt(signal - 1), true);
  // A parent can have left the signal blocked.
  const set = address + BigInt(SIGNAL_SET_AT);
  libc().kernel(numbers.mask, SIG_UNBLOCK, set, 0n, SIGNAL_SET_BYTES, 0n, 0n);
  return { view, address };
}

/** Gives the signal a handler that does nothing, if it has none or another thread did so. */
function takeSignal(signal: number): boolean {
  const found = new DataView(new ArrayBuffer(SIGACTION_BYTES));
  if (libc().sigaction(signal, null, new Uint8Array(found.buffer)) < 0) return false;
  const handler = harmlessHandler();
  const current = found.getBigUint64(0, true);
  if (current === handler) return true;
  if (current !== 0n) return false;
  // Without SA_RESTART, so that the signal ends a call.
  const wanted = new DataView(new ArrayBuffer(SIGACTION_BYTES));
  wanted.setBigUint64(0, handler, true);
  wanted.setInt32(SIGACTION_FLAGS_AT, SA_ONSTACK, true);
  return libc().sigaction(signal, new Uint8Array(wanted.buffer), null) === 0;
}
