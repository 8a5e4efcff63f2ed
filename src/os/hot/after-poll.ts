/**
 * Runs a poll callback as a normal task in the same event-loop turn. For an urgent wait it creates
 * the immediate before the loop sleeps. Creating it after the wake-up takes several microseconds,
 * because its code and data have left the processor's caches. See src/channel/hot/README.md.
 */

import { AsyncResource } from "node:async_hooks";
// WHY imported: tests replace the global by a fake clock, under which a prepared one would never
// run.
import { setImmediate } from "node:timers";

/** How many urgent waits there are. */
let awaited = 0;
/** The immediate is prepared. */
let isReady = false;
/** The function that the immediate will run. */
let first: (() => void) | undefined;
/**
 * WHY: the immediate serves all waits, so it must not carry the AsyncLocalStorage of one caller.
 */
const forAll = new AsyncResource("cuda-ipc.after-poll");

/** Call this only from a poll callback: otherwise the prepared immediate runs after a sleep. */
export function afterPoll(callback: () => void): void {
  if (isReady && first === undefined) first = callback;
  else setImmediate(runLater, callback);
}

/** Begins an urgent wait. Until `awaitNoLonger` each turn of the loop runs one more immediate. */
export function awaitPoll(): void {
  awaited += 1;
  standReady();
}

export function awaitNoLonger(): void {
  awaited -= 1;
}

/** Prepares the immediate. Call it again for each wait, because it runs only once. */
export function standReady(): void {
  if (isReady) return;
  isReady = true;
  forAll.runInAsyncScope(prepare);
}

function prepare(): void {
  // WHY unreferenced: otherwise the loop would not sleep, and the process could not end.
  setImmediate(run).unref();
}

function run(): void {
  const callback = first;
  first = undefined;
  isReady = false;
  if (callback !== undefined) callback();
  // WHY not after a callback: its waiter goes on first, and prepares again when it waits again.
  // The next wait of somebody else takes a little longer.
  else if (awaited > 0) standReady();
}

function runLater(callback: () => void): void {
  callback();
  if (awaited > 0) standReady();
}
