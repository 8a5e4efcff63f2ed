import { messageOf } from "./errors.js";
/**
 * Releases what was acquired, newest first, unless it is handed over. Several releases are all
 * tried before the first failure is thrown.
 */

export class Scope {
  readonly #releases: (() => void)[] = [];

  /** Registers the release of a new resource and returns the resource. */
  own<T>(value: T, release: (value: T) => void): T {
    this.#releases.push(() => release(value));
    return value;
  }

  /** Registers a release without a resource. */
  defer(release: () => void): void {
    this.#releases.push(release);
  }

  /** Gives everything to another owner: nothing is released here any more. */
  handOver(): void {
    this.#releases.length = 0;
  }

  /**
   * Releases everything, newest first. Tries all, then throws the first failure with the others
   * attached.
   */
  close(): void {
    releaseAll(this.#releases.splice(0).reverse());
  }
}

/**
 * Runs `acquire`. If it throws, releases everything in its scope first. The caller owns the result.
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

/** As `acquireIn`, for an asynchronous acquisition. */
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
