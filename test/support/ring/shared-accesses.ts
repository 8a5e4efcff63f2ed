/**
 * Comes between one access to shared words and the next: what one side does while the other is at any point of its own operation. The
 * accesses that count are those by `Atomics`, which alone order the two sides.
 */

const { load, store } = Atomics;

/** Calls `before` before each access that `body` makes; those that it makes itself do not count. */
export function eachAccess<T>(before: (count: number) => void, body: () => T): T {
  let count = 0;
  const come = () => {
    restore();
    try {
      before(count);
    } finally {
      count += 1;
      hook();
    }
  };
  const hook = () => {
    Object.assign(Atomics, {
      load: (words: Int32Array, index: number) => {
        come();
        return load(words, index);
      },
      store: (words: Int32Array, index: number, value: number) => {
        come();
        return store(words, index, value);
      },
    });
  };
  hook();
  try {
    return body();
  } finally {
    restore();
  }
}

/** Does `other` before access `at` of `body`. @returns whether the body came that far */
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
export class Death extends Error {}

/** `body` ends before access `at`. @returns false where it came to its own end before */
export function dieAt(at: number, body: () => void): boolean {
  try {
    eachAccess((count) => {
      if (count === at) throw new Death();
    }, body);
  } catch (error) {
    if (error instanceof Death) return true;
    throw error;
  }
  return false;
}

function restore(): void {
  Object.assign(Atomics, { load, store });
}
