/**
 * Runs an operation with its 1st call of each system call failing, with each errno of that call,
 * then with a later one, and so on, until no call fails.
 */
import assert from "node:assert/strict";
import type { ErrorCode } from "../../src/base/error-codes.js";
import { CudaIpcError, SystemError } from "../../src/base/errors.js";
import { systemError } from "../../src/os/system-error.js";
import { nightly } from "./random.js";
import { onSystemCalls, type SystemCallSeen } from "./system-calls.js";
import { soon } from "./until.js";

/** More calls of one name than any operation makes. */
const CALLS_MAX = 500;
/** By day each of the first calls of a name fails, then one of so many. `NIGHTLY=1` tries all. */
const FIRST_CALLS = 3;
const STRIDE = 8;

export interface Failure {
  /** `recvmsg 3 with ENOMEM` */
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
 * WHY again: messages that arrive together take fewer calls than the same messages one by one.
 */
const MISSES_MAX = 2;

/** @returns the calls that failed, each once */
export async function sweepSystemCalls(
  round: (round: Round) => Promise<void>,
  { check, codes = ["HUB_GONE", "HUB_UNAVAILABLE"] }: SweepOptions,
): Promise<Set<string>> {
  const failed = new Set<string>();
  // WHY by name: a call more or less of one name must not hide a call of another.
  const names = new Set<string>();
  const run = async (aim: Aim | undefined) => {
    const result = await runOnce(round, aim, names);
    if (result.failure !== undefined && result.error !== undefined)
      checkError(result.failure, result.error, codes);
    await check(result);
    if (result.failure === undefined && result.error !== undefined) throw result.error;
    return result.failure;
  };
  await run(undefined);
  // The set grows meanwhile: what follows a failure makes calls of its own.
  for (const name of names) {
    for (let n = 1, misses = 0; misses < MISSES_MAX; ) {
      assert.ok(n < CALLS_MAX, `more than ${CALLS_MAX} calls of ${name}`);
      const first = await run({ name, n, variant: 0 });
      if (first === undefined) misses += 1;
      else {
        failed.add(name);
        const { errnos } = first.call;
        // Of later calls one errno more, each in its turn. `NIGHTLY=1` tries all of them.
        const turn = Math.ceil(n / STRIDE) % errnos.length;
        const tried = n === 1 || nightly ? errnos.keys() : [turn];
        for (const variant of tried) if (variant > 0) await run({ name, n, variant });
        n += n < FIRST_CALLS || nightly ? 1 : STRIDE;
        misses = 0;
      }
    }
  }
  return failed;
}

/** The n-th call of a name, counted from 1, and which of its errnos it fails with. */
interface Aim {
  readonly name: string;
  readonly n: number;
  readonly variant: number;
}

/** Adds the calls that it sees to `names`. Nothing fails without an aim. */
async function runOnce(
  round: (round: Round) => Promise<void>,
  aim: Aim | undefined,
  names: Set<string>,
): Promise<RoundResult> {
  let failure: Failure | undefined;
  let count = 0;
  const see = (call: SystemCallSeen): number | undefined => {
    names.add(call.name);
    if (aim === undefined || call.name !== aim.name) return undefined;
    count += 1;
    if (count !== aim.n) return undefined;
    const errno = call.errnos[aim.variant] as number;
    failure = { call, errno, description: describe(aim, errno) };
    return errno;
  };
  const failing = async <T>(operation: () => T | Promise<T>): Promise<T> => {
    using _armed = onSystemCalls(see);
    const what = aim === undefined ? "nothing" : `${aim.name} ${aim.n}`;
    return await soon(
      `the end of an operation in which ${what} fails`,
      (async () => operation())(),
    );
  };
  let error: unknown;
  try {
    await round({ failing });
  } catch (thrown) {
    error = thrown;
  }
  return { failure, error };
}

function describe({ name, n }: Aim, errno: number): string {
  return `${name} ${n} with ${systemError("", "", errno).errnoName}`;
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
