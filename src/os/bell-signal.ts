/**
 * Rings an eventfd without ever waiting. The kernel's asynchronous I/O (AIO) signals the eventfd
 * that a request names, and that signal saturates instead of waiting.
 * WHY not eventfd_write: O_NONBLOCK belongs to the open file. Every process that has the file can
 * clear the flag between our check and our write.
 * https://man7.org/linux/man-pages/man2/io_submit.2.html
 *   iocb (64)   data 0:8  key 8:4  rw_flags 12:4  opcode 16:2  priority 18:2  fd 20:4  buffer 24:8
 *               length 32:8  offset 40:8  reserved 48:8  flags 56:4  resfd 60:4
 */
import { lastErrno, libc } from "../ffi/libc.js";
import { addressOf } from "./host-memory.js";
import { errnos } from "./system-error.js";

const OPCODE_PREAD = 0;
const FLAG_RESFD = 1;
const OPCODE_AT = 16;
const FD_AT = 20;
const FLAGS_AT = 56;
const RESFD_AT = 60;
const POINTER_AT = 64;
const CONTEXT_AT = 72;
const NO_TIME_AT = 80;
const EVENTS_AT = 96;
/** The kernel always has room for more events than this. */
const EVENTS = 16;
const EVENT_BYTES = 32;

/** AArch64 uses the generic table of Linux. */
const numbers =
  process.arch === "arm64"
    ? { setup: 0, destroy: 1, submit: 2, getEvents: 4 }
    : { setup: 206, destroy: 207, submit: 209, getEvents: 208 };

interface Signal {
  readonly view: DataView;
  readonly addresses: {
    readonly pointer: bigint;
    readonly events: bigint;
    readonly noTime: bigint;
  };
  readonly context: bigint;
  unread: number;
}

/** After a refusal, the rings until the next attempt. */
const RINGS_UNTIL_RETRY = 64;

let signal: Signal | undefined;
let ringsUntilRetry = 0;
let isEnding = false;

/**
 * Prepares what `signalBell` needs, unless it is ready. A hub calls this before it serves anybody:
 * the limit on AIO contexts (fs.aio-max-nr) covers all users together, so another user can take
 * them all.
 * @returns undefined if it is ready, or the errno if the system has no AIO or allows no context
 */
export function prepareBellSignals(): number | undefined {
  if (signal !== undefined) return undefined;
  signal = setUp();
  return signal === undefined ? lastErrno() : undefined;
}

/** @returns false if AIO cannot ring the bell; it was not rung then */
export function signalBell(fd: number): boolean {
  const ready = signal ?? tryAgain();
  if (ready === undefined) return false;
  ready.view.setInt32(FD_AT, fd, true);
  ready.view.setInt32(RESFD_AT, fd, true);
  if (ready.unread === EVENTS) readEvents(ready);
  if (libc().kernel(numbers.submit, ready.context, 1n, ready.addresses.pointer, 0n, 0n, 0n) !== 1)
    return false;
  ready.unread += 1;
  return true;
}

/** WHY not at each ring: a refused attempt costs more than the ring. */
function tryAgain(): Signal | undefined {
  if (isEnding || ringsUntilRetry > 0) {
    ringsUntilRetry -= 1;
    return undefined;
  }
  ringsUntilRetry = RINGS_UNTIL_RETRY;
  prepareBellSignals();
  return signal;
}

function setUp(): Signal | undefined {
  const memory = new Uint8Array(new ArrayBuffer(EVENTS_AT + EVENTS * EVENT_BYTES));
  const view = new DataView(memory.buffer);
  const base = addressOf(memory);
  // This number counts against fs.aio-max-nr.
  if (libc().kernel(numbers.setup, 1n, base + BigInt(CONTEXT_AT), 0n, 0n, 0n, 0n) < 0) {
    return undefined;
  }
  // Reads no bytes from the bell itself. That ends at once with EINVAL and needs no other file. The
  // end of the request is what signals.
  view.setUint16(OPCODE_AT, OPCODE_PREAD, true);
  view.setUint32(FLAGS_AT, FLAG_RESFD, true);
  view.setBigUint64(POINTER_AT, base, true);
  const context = view.getBigUint64(CONTEXT_AT, true);
  const at = (offset: number) => base + BigInt(offset);
  const addresses = { pointer: at(POINTER_AT), events: at(EVENTS_AT), noTime: at(NO_TIME_AT) };
  // The kernel ends the contexts of a process, but not those of a thread.
  process.once("exit", () => {
    signal = undefined;
    isEnding = true;
    libc().kernel(numbers.destroy, context, 0n, 0n, 0n, 0n, 0n);
  });
  return { view, addresses, context, unread: 0 };
}

/** Makes room for more requests. */
function readEvents(ready: Signal): void {
  const { events, noTime } = ready.addresses;
  const read = libc().kernel(
    numbers.getEvents,
    ready.context,
    0n,
    BigInt(EVENTS),
    events,
    noTime,
    0n,
  );
  if (read > 0) ready.unread -= read;
  else if (lastErrno() !== errnos.EINTR) ready.unread = 0;
}
