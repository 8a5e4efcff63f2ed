/**
 * Waits for a condition that only asking reveals (a stream's state), without blocking the event loop: a few microseconds of
 * asking at once, then once per turn of the loop, then on a timer, so that short waits are quick and long ones cost no CPU.
 */
import type { Deadline } from "../base/deadline.js";

const SPIN_MS = 0.02;
/** Whatever is asked for: the event loop stands still meanwhile. */
const SPIN_MS_MAX = 1000;
const TURNS_MS = 5;
const TIMER_MS = 1;
/** So many timers come between two looks at the device. */
const TIMERS_PER_LOOK = 32;

/** Asked now and then by a wait that lasts, since what it waits for may need the device and never say so. */
interface Watched {
  /** @throws DEVICE_LOST */
  checkAlive(): void;
}

/**
 * @param spinMs how long to ask without letting the event loop go on; 0 where it has others to serve
 * @param device what the wait depends on without asking it
 * @throws TIMEOUT, ABORTED, and whatever `isDone` and the device throw
 */
export async function waitUntil(
  isDone: () => boolean,
  deadline: Deadline,
  spinMs = SPIN_MS,
  device?: Watched,
): Promise<void> {
  if (typeof spinMs !== "number" || !(spinMs >= 0))
    throw new RangeError(`spinMs must be a number from 0, not ${String(spinMs)}`);
  const startMs = performance.now();
  const spinEndMs = startMs + Math.min(spinMs, deadline.remainingMs, SPIN_MS_MAX);
  do {
    if (isDone()) return;
  } while (performance.now() < spinEndMs);
  for (let timers = 0; ; ) {
    deadline.check();
    if (performance.now() - startMs < TURNS_MS) await nextTurn();
    else {
      await sleep(Math.min(TIMER_MS, deadline.remainingMs));
      timers += 1;
      if (timers % TIMERS_PER_LOOK === 0) device?.checkAlive();
    }
    if (isDone()) return;
  }
}

/** Lets the event loop have its turn. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
