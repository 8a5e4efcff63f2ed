/** Polls for a condition until a deadline that no working program reaches. */
import assert from "node:assert/strict";

const DEADLINE_MS = 60_000;
const PAUSE_MS = 5;

export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
): Promise<void> {
  const endMs = performance.now() + DEADLINE_MS;
  while (!(await condition())) {
    assert.ok(performance.now() < endMs, `not so within ${DEADLINE_MS} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

/** Waits for a promise, and fails at the deadline. */
export async function soon<T>(
  what: string,
  promise: Promise<T>,
  deadlineMs: number = DEADLINE_MS,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new assert.AssertionError({ message: `not within ${deadlineMs} ms: ${what}` })),
      deadlineMs,
    );
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Repeats an attempt with twice the limit each time, until it is rejected as expected. WHY repeated:
 * on a busy machine a limit ends an attempt before it has found out what the error should say.
 */
export async function untilRejects(
  expected: Parameters<typeof assert.rejects>[1] & object,
  attempt: (timeoutMs: number) => Promise<unknown>,
  firstMs = 50,
): Promise<void> {
  for (let timeoutMs = firstMs; ; timeoutMs *= 2) {
    try {
      return await assert.rejects(attempt(timeoutMs), expected);
    } catch (error) {
      if (timeoutMs > DEADLINE_MS / 4) throw error;
    }
  }
}
