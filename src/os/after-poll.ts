/**
 * Runs as ordinary code, in the same turn of the event loop, what a descriptor brought about. While somebody waits for that in a hurry, an
 * immediate stands ready from before the loop went to sleep: to make one after it woke takes several microseconds, for code and data that
 * the processor has no longer at hand.
 */

import { AsyncResource } from "node:async_hooks";
// WHY imported: where somebody takes the global for a while, as tests with a clock of their own do, what stands ready would never run.
import { setImmediate } from "node:timers";

/** How many wait in a hurry. */
let awaited = 0;
/** Whether the immediate stands ready. */
let isReady = false;
/** What it will run. */
let first: (() => void) | undefined;
/** WHY: whoever makes it ready does so for all, and whatever AsyncLocalStorage says of that one is not for the others. */
const forAll = new AsyncResource("cuda-ipc.after-poll");

/** Only while the loop polls: what stands ready would otherwise run only once the loop has slept. */
export function afterPoll(callback: () => void): void {
  if (isReady && first === undefined) first = callback;
  else setImmediate(runLater, callback);
}

/** Somebody waits in a hurry from here on, until `awaitNoLonger`. Meanwhile a turn of the loop runs one immediate more. */
export function awaitPoll(): void {
  awaited += 1;
  standReady();
}

export function awaitNoLonger(): void {
  awaited -= 1;
}

/** WHY again, where it is awaited already: what stood ready is gone once it has run. */
export function standReady(): void {
  if (isReady) return;
  isReady = true;
  forAll.runInAsyncScope(makeReady);
}

function makeReady(): void {
  // WHY unreferenced: the loop goes to sleep although it is there, and a process can end.
  setImmediate(run).unref();
}

function run(): void {
  const callback = first;
  first = undefined;
  isReady = false;
  if (callback !== undefined) callback();
  // WHY not after a callback: whoever waited for it is to go on now, and makes it ready again where it waits again. Where it was another's,
  // the next that is awaited takes a little longer.
  else if (awaited > 0) standReady();
}

function runLater(callback: () => void): void {
  callback();
  if (awaited > 0) standReady();
}
