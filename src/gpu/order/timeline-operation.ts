/** Checks the timelines and events given to a stream, and reports misuse with clear errors. */

import { AnyTimeline } from "./any-timeline.js";
import { Event } from "./event.js";
import { Timeline } from "./timeline.js";

/** A signal or a wait of a batch that is enqueued with one call. */
export type TimelineOperation =
  | { readonly signal: Timeline; readonly value: number | bigint }
  | { readonly wait: AnyTimeline; readonly value: number | bigint };

type CheckedOperation =
  | { readonly signal: Timeline; readonly wait: undefined; readonly value: number | bigint }
  | { readonly signal: undefined; readonly wait: AnyTimeline; readonly value: number | bigint };

/** @throws TypeError if it is neither a signal nor a wait */
export function operationOf(operation: TimelineOperation): CheckedOperation {
  if (typeof operation !== "object" || operation === null) {
    throw new TypeError(
      `Cannot enqueue ${kindOf(operation)}, wanted { signal, value } or { wait, value }`,
    );
  }
  const { value } = operation;
  if ("signal" in operation) {
    const { signal } = operation;
    if (!(signal instanceof Timeline)) throw notSignalled(signal);
    return { signal, wait: undefined, value };
  }
  const { wait } = operation;
  if (!(wait instanceof AnyTimeline)) throw notAwaited(wait, "a timeline");
  return { signal: undefined, wait, value };
}

/** @throws TypeError if it is not an array */
export function checkOperations(operations: readonly TimelineOperation[]): void {
  if (Array.isArray(operations)) return;
  throw new TypeError(`Cannot enqueue ${kindOf(operations)}, wanted an array of operations`);
}

export function notSignalled(found: unknown): TypeError {
  const shown =
    found instanceof AnyTimeline ? `timeline "${found.label}" of another process` : shownOf(found);
  return new TypeError(`Cannot signal ${shown}, wanted a timeline of this process`);
}

export function notAwaited(found: unknown, wanted = "a timeline or an event"): TypeError {
  return new TypeError(`Cannot wait for ${shownOf(found)}, wanted ${wanted}`);
}

function shownOf(found: unknown): string {
  return found instanceof Event ? `event "${found.label}"` : kindOf(found);
}

function kindOf(value: unknown): string {
  if (value === undefined || value === null) return String(value);
  if (Array.isArray(value)) return "an array";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
