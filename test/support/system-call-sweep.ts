/**
 * Runs an operation with its 1st system call failing, then its 2nd, and so on, with each errno of
 * that call, until no call fails.
 */
import assert from "node:assert/strict";
import type { ErrorCode } from "../../src/base/error-codes.js";
import { CudaIpcError, SystemError } from "../../src/base/errors.js";
import { systemError } from "../../src/os/system-error.js";
import { atSystemCall, type SystemCallSeen } from "./system-calls.js";
import { soon } from "./until.js";

/** More calls than any operation makes. */
const CALLS_MAX = 500;

export interface Failure {
  /** `call 3, recvmsg with ENOMEM` */
  readonly description: string;
  readonly call: SystemCallSeen;
  readonly errno: number;
}

export interface Round {
  /** Runs the operation under a deadline and throws what it throws. Calls fail only within it. */
  failing<T>(operation: () => T | Promise<T>): Promise<T>;
}

export interface RoundResult {
  readonly failure: Failure | undefined;
  readonly error: unknown;
}

export interface SweepOptions {
  /** Codes that may replace the system's own error, because the failure ended a connection. */
  readonly codes?: readonly ErrorCode[];
  /** Checks each round, even the last one, in which nothing failed. */
  readonly check: (result: RoundResult) => void | Promise<void>;
}

/**
 * WHY try a call number again: messages that arrive together take fewer calls than the same
 * messages one by one.
 */
const SAME_CALL_ROUNDS = 3;
const MISSED_ROUNDS = 3 * SAME_CALL_ROUNDS;

/** @returns the calls that failed, each once */
export async function sweepSystemCalls(
  round: (round: Round) => Promise<void>,
  { check, codes = ["HUB_GONE", "HUB_UNAVAILABLE"] }: SweepOptions,
): Promise<Set<string>> {
  const failed = new Set<string>();
  let missed = 0;
  for (let n = 1; n < CALLS_MAX; n += 1) {
    for (let variant = 0; ; variant += 1) {
      const result = await runOnce(round, n, variant);
      if (result.failure !== undefined && result.error !== undefined)
        checkError(result.failure, result.error, codes);
      await check(result);
      if (result.failure === undefined) {
        if (result.error !== undefined) throw result.error;
        missed += 1;
        if (missed === MISSED_ROUNDS) return failed;
        if (missed % SAME_CALL_ROUNDS !== 0) n -= 1;
        break;
      }
      missed = 0;
      failed.add(result.failure.call.name);
      if (variant + 1 >= result.failure.call.errnos.length) break;
    }
  }
  assert.fail(`more than ${CALLS_MAX} calls`);
}

async function runOnce(
  round: (round: Round) => Promise<void>,
  n: number,
  variant: number,
): Promise<RoundResult> {
  const failures: Failure[] = [];
  const failing = async <T>(operation: () => T | Promise<T>): Promise<T> => {
    using _armed = atSystemCall(n, (call) => {
      const errno = call.errnos[variant] as number;
      failures.push({ call, errno, description: describe(n, call.name, errno) });
      return errno;
    });
    return await soon(`the end of an operation whose call ${n} fails`, (async () => operation())());
  };
  let error: unknown;
  try {
    await round({ failing });
  } catch (thrown) {
    error = thrown;
  }
  return { failure: failures[0], error };
}

function describe(n: number, name: string, errno: number): string {
  return `call ${n}, ${name} with ${systemError("", "", errno).errnoName}`;
}

/** Checks that each error is of this package and names the failed call or its consequence. */
function checkError(
  { description, errno }: Failure,
  error: unknown,
  codes: readonly ErrorCode[],
): void {
  for (const each of partsOf(error)) {
    const told = each instanceof SystemError && each.errno === errno;
    const cameOfIt = each instanceof CudaIpcError && codes.includes(each.code);
    assert.ok(told || cameOfIt, `${description}: found ${inspectError(each)}`);
  }
}

/** WHY several: the error of a release is attached to the first error. */
function partsOf(error: unknown): unknown[] {
  if (error === undefined) return [];
  if (error instanceof AggregateError) return error.errors.flatMap(partsOf);
  const { error: later, suppressed } = error as {
    readonly error?: unknown;
    readonly suppressed?: unknown;
  };
  if (later !== undefined) return [...partsOf(later), ...partsOf(suppressed)];
  return [error];
}

function inspectError(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
