/**
 * Runs code between two accesses to shared words: what one side does at any point of the other's
 * operation. `Atomics` accesses order the two sides. For a side that dies, every write is a step.
 */
import { RingWords } from "../../../src/ring/ring-words.js";

/** @param given the arguments of the access */
type Before = (count: number, given: readonly unknown[]) => void;
type Methods = Record<string, (...given: unknown[]) => unknown>;

const ORDERED = [{ target: Atomics, names: ["load", "store"] }] as const;
const ALL = [
  ...ORDERED,
  { target: RingWords.prototype, names: ["setCount", "setWord32", "setNumber"] },
] as const;

/**
 * Calls `before` before each access until it is disposed. Accesses of `before` itself do not count.
 */
function eachOf(wanted: typeof ALL | typeof ORDERED, before: Before): Disposable {
  let count = 0;
  let isInside = false;
  const restores: (() => void)[] = [];
  for (const { target, names } of wanted) {
    const methods = target as unknown as Methods;
    for (const name of names) {
      const method = methods[name] as Methods[string];
      restores.push(() => {
        methods[name] = method;
      });
      methods[name] = function (this: unknown, ...given: unknown[]) {
        if (!isInside) {
          isInside = true;
          try {
            before(count, given);
          } finally {
            count += 1;
            isInside = false;
          }
        }
        return method.apply(this, given);
      };
    }
  }
  return {
    [Symbol.dispose]: () => {
      for (const restore of restores) restore();
    },
  };
}

/** Each access by `Atomics` in this thread, until it is disposed. */
export function beforeAccesses(before: Before): Disposable {
  return eachOf(ORDERED, before);
}

/** Each access by `Atomics` that `body` makes. */
export function eachAccess<T>(before: Before, body: () => T): T {
  using _ = beforeAccesses(before);
  return body();
}

/** Each access by `Atomics`, and each plain write. */
export function eachStep<T>(before: Before, body: () => T): T {
  using _ = eachOf(ALL, before);
  return body();
}

/** Runs `other` before access `at` of `body`. @returns whether `body` got that far */
export function duringAccess(at: number, other: () => void, body: () => void): boolean {
  let isReached = false;
  eachAccess((count) => {
    if (count !== at) return;
    isReached = true;
    other();
  }, body);
  return isReached;
}

/** Ends an operation in the middle, as death does. */
class Death extends Error {}

/** Ends `body` before step `at`. @returns false if it finished before that step */
export function dieAt(at: number, body: () => void): boolean {
  try {
    eachStep((count) => {
      if (count === at) throw new Death();
    }, body);
  } catch (error) {
    if (error instanceof Death) return true;
    throw error;
  }
  return false;
}
