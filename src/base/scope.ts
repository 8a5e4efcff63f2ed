import { messageOf } from "./errors.js";
/**
 * Acquire in a scope, hand over last: releases what was acquired, newest first, unless it was handed over.
 * Also the one way in which several releases are all tried before the first failure is thrown.
 */

export class Scope {
  readonly #releases: (() => void)[] = [];

  /** Registers the release of something that was just acquired, and returns it. */
  own<T>(value: T, release: (value: T) => void): T {
    this.#releases.push(() => release(value));
    return value;
  }

  /** Registers a release that belongs to no value. */
  defer(release: () => void): void {
    this.#releases.push(release);
  }

  /** From here on somebody else owns everything that was acquired. */
  handOver(): void {
    this.#releases.length = 0;
  }

  /** Releases everything, newest first; all are tried, then the first failure is thrown with the others attached. */
  close(): void {
    releaseAll(this.#releases.splice(0).reverse());
  }
}

/**
 * Runs `acquire`; when it throws, everything registered in its scope is released before the error goes on.
 * What it returns belongs to the caller.
 */
export function acquireIn<T>(acquire: (scope: Scope) => T): T {
  const scope = new Scope();
  let result: T;
  try {
    result = acquire(scope);
  } catch (error) {
    throw withUndoFailure(error, () => scope.close());
  }
  scope.handOver();
  return result;
}

/** As `acquireIn`, for an acquisition that awaits. */
export async function acquireInAsync<T>(acquire: (scope: Scope) => Promise<T>): Promise<T> {
  const scope = new Scope();
  let result: T;
  try {
    result = await acquire(scope);
  } catch (error) {
    throw withUndoFailure(error, () => scope.close());
  }
  scope.handOver();
  return result;
}

/** Runs all releases in order, then throws the first failure with the others attached. */
export function releaseAll(releases: readonly (() => void)[]): void {
  let failures: unknown[] | undefined;
  for (const release of releases) {
    try {
      release();
    } catch (error) {
      failures ??= [];
      failures.push(error);
    }
  }
  if (failures === undefined) return;
  if (failures.length === 1) throw failures[0];
  throw new AggregateError(failures, `${failures.length} releases failed`);
}

function withUndoFailure(error: unknown, undo: () => void): unknown {
  try {
    undo();
    return error;
  } catch (undoFailure) {
    return new AggregateError([error, undoFailure], messageOf(error));
  }
}
