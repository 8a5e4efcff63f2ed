/**
 * Polls a condition without blocking the event loop: it spins for a few microseconds, then polls
 * once per turn of the event loop, then on a timer. Short waits are quick, long ones cost little.
 */
import type { Deadline } from "../../base/deadline.js";

const SPIN_MS = 0.02;
/** The longest spin, whatever the caller asks for, because it blocks the event loop. */
const SPIN_MS_MAX = 1000;
const TURNS_MS = 5;
const TIMER_MS = 1;
/** The device is checked once per this many timers. */
const TIMERS_PER_LOOK = 32;

/** A long wait checks it now and then: if the device is lost, the condition may never come true. */
interface Watched {
  /** @throws DEVICE_LOST */
  checkAlive(): void;
}

/**
 * Waits until `isDone` returns true.
 * @param spinMs how long to spin before the event loop continues; 0 to not spin
 * @param device checked while the wait lasts
 * @throws TIMEOUT, ABORTED, and the errors of `isDone` and of the device
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

/** Resolves in the next turn of the event loop. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
