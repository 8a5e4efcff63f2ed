/** The record of a soak client: counts by operation and outcome, slow operations, faults. */
import { CudaIpcError, hasCode } from "../../src/base/errors.js";
import type { ErrorCode } from "../../src/index.js";
import { monotonicMs } from "../hub/monotonic.js";

/** `create array` or `open array: NOT_FOUND`, and how often. */
export type Counts = Record<string, number>;

export interface LateOperation {
  readonly operation: string;
  readonly startMs: number;
  readonly endMs: number;
  readonly limitMs: number;
}

/** The messages of a client to the soak, one line of JSON each. */
export type ClientLine =
  | { readonly kind: "counts"; readonly counts: Counts }
  | { readonly kind: "late"; readonly late: LateOperation }
  | { readonly kind: "fault"; readonly fault: string };

export class Tally {
  readonly #tell: (line: ClientLine) => void;
  readonly #operationMs: number;
  #counts: Counts = {};
  /** Whether an operation found the hub gone since this was last set to false. */
  hubGone = false;

  /** @param operationMs how long an operation may take, without the time it waits on request */
  constructor(operationMs: number, tell: (line: ClientLine) => void) {
    this.#operationMs = operationMs;
    this.#tell = tell;
  }

  /** Returns undefined if it failed with an expected error. Any other error is a fault. */
  async attempt<T>(
    operation: string,
    expected: readonly ErrorCode[],
    once: () => T | Promise<T>,
    waitMs = 0,
  ): Promise<T | undefined> {
    const startMs = monotonicMs();
    try {
      const result = await once();
      this.count(operation);
      return result;
    } catch (error) {
      this.#onError(operation, expected, error);
      return undefined;
    } finally {
      const late = {
        operation,
        startMs,
        endMs: monotonicMs(),
        limitMs: waitMs + this.#operationMs,
      };
      if (late.endMs - startMs > late.limitMs) this.#tell({ kind: "late", late });
    }
  }

  count(what: string): void {
    this.#counts[what] = (this.#counts[what] ?? 0) + 1;
  }

  fault(fault: string): void {
    this.#tell({ kind: "fault", fault });
  }

  /** Sends the counts since the last call. */
  flush(): void {
    if (Object.keys(this.#counts).length === 0) return;
    this.#tell({ kind: "counts", counts: this.#counts });
    this.#counts = {};
  }

  #onError(operation: string, expected: readonly ErrorCode[], error: unknown): void {
    const isGone = hasCode(error, "HUB_GONE");
    if (isGone) this.hubGone = true;
    if (error instanceof CudaIpcError && expected.includes(error.code))
      this.count(`${operation}: ${error.code}`);
    else
      this.fault(
        `${operation}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`,
      );
  }
}

export function addCounts(sum: Counts, counts: Counts): void {
  for (const [what, count] of Object.entries(counts)) sum[what] = (sum[what] ?? 0) + count;
}
