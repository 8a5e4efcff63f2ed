/**
 * Runs one cell: its fault at each system call of the step in turn. After each, the others get an
 * answer, readers see only published data, the step works when repeated, and nothing is left over.
 */
import assert from "node:assert/strict";
import { nightly } from "../random.js";
import { until } from "../until.js";
import {
  type Cell,
  cellName,
  doersOf,
  type PartyFault,
  type PartyRole,
  takesPart,
} from "./cells.js";
import type { Expectation } from "./expectation.js";
import { arm, hitNow, isLimit, undo } from "./hits.js";
import { hitKeeper } from "./keeper-hits.js";
import { LONG_MS, type Party } from "./party.js";
import {
  checkHeld,
  checkVisible,
  glance,
  grantIfPublished,
  type RunResult,
  type Waiting,
  waitFor,
} from "./promises.js";
import { clean, complete, perform, prepare } from "./steps.js";
import type { World } from "./world.js";

/** The time limit of calls that may wait in vain. */
const PATIENCE_MS = 2_000;
/** More system calls than the keeper or the hub makes in any step. */
const KEEPER_CALLS_MAX = 100;
const KEEPER_STRIDE = nightly ? 4 : 8;
/** If a step has more calls than this, only every 16th is tried. The nightly run tries all. */
const MANY_CALLS = 50;
const LONG_STRIDE = 16;

interface Run {
  readonly cell: Cell;
  /** The system call at which the fault happens: the victim's, or that of a party stopped there. */
  readonly at: number;
  /** Codes with which the bystander's open of the name may fail while it waits. */
  readonly waiter: readonly string[];
}

export interface CellResult {
  /** At how many system calls the fault was tried. */
  readonly systemCalls: number;
  /** The outcomes of the calls of the surviving parties. */
  readonly codes: readonly string[];
}

let lastStamp = 100;

/** @throws AssertionError if a promise does not hold */
export async function experiment(
  world: World,
  cell: Cell,
  { allowed, waiter }: Expectation,
): Promise<CellResult> {
  const codes = new Set<string>();
  let hits = 0;
  for (const at of await callsOf(world, cell)) {
    const { hit, outcomes } = await runOnce(world, { cell, at, waiter });
    if (hit) hits += 1;
    for (const { role, code, message } of outcomes) {
      const mayEnd = code === "ended" && role === cell.role && cell.fault === "SIGKILL";
      const expected = mayEnd || allowed.includes(code);
      assert.ok(
        expected,
        `${cellName(cell)}, call ${at}: ${role} got ${code}, wanted ${allowed.join(" or ")}: ${message}`,
      );
      if (!mayEnd && hit) codes.add(code);
    }
    if (!hit && !isLimit(cell.fault)) break;
  }
  assert.ok(hits > 0, `${cellName(cell)} happened at least once`);
  return { systemCalls: hits, codes: [...codes].sort() };
}

/** A cell whose victim is not a keeper. */
interface PartyCell extends Cell {
  readonly role: PartyRole;
  readonly fault: PartyFault;
}

function isOfParty(cell: Cell): cell is PartyCell {
  return cell.role !== "keeper";
}

async function callsOf(world: World, cell: Cell): Promise<Iterable<number>> {
  return isOfParty(cell) ? callsToTry(cell, await countCalls(world, cell)) : keeperCallsToTry(cell);
}

/** WHY not every call: each death of a hub or keeper takes one or two new processes. */
function* keeperCallsToTry({ step }: Cell): Iterable<number> {
  const hasNoPart = step === "read" || step === "write";
  for (let at = 1; at <= (hasNoPart ? 1 : KEEPER_CALLS_MAX); at += KEEPER_STRIDE) yield at;
}

/** The party within whose system calls the fault happens. */
function whoseCalls({ role, step }: PartyCell, part: boolean): PartyRole {
  return part ? role : (doersOf[step][0] as PartyRole);
}

/** Runs the step without a fault, and counts the system calls. */
async function countCalls(world: World, cell: PartyCell): Promise<number> {
  const stamp = nextStamp();
  await prepare(world, cell.step, stamp);
  const counted = world.party(whoseCalls(cell, takesPart(cell)));
  await counted.arm("count", 1);
  const outcomes = await perform(world, cell.step, stamp, LONG_MS);
  const { calls } = (await counted.disarm()) ?? { calls: 0 };
  for (const { code, message } of outcomes) assert.equal(code, "ok", message);
  await clean(world, cell.step);
  return calls;
}

function* callsToTry({ role, fault, step }: PartyCell, calls: number): Iterable<number> {
  const part = takesPart({ role, fault, step });
  if (isLimit(fault)) yield 1;
  else if (part && (fault === "SIGKILL" || fault === "socket cut")) {
    // WHY bounded: if each hit causes more calls, every call would be followed by another one to
    // hit.
    const stride = calls > MANY_CALLS && !nightly ? LONG_STRIDE : 1;
    for (let at = 1; at <= 4 * calls + 10; at += stride) yield at;
  } else yield* new Set([1, Math.max(1, Math.ceil(calls / 2)), Math.max(1, calls)]);
}

async function runOnce(world: World, run: Run): Promise<RunResult> {
  const { cell } = run;
  const stamp = nextStamp();
  const reconnects = world.reconnects;
  await prepare(world, cell.step, stamp);
  const waiting = await waitFor(world, cell);
  const result = isOfParty(cell)
    ? await hitParty(world, cell, run.at, stamp)
    : await hitKeeper(world, cell, run.at, () => perform(world, cell.step, stamp, LONG_MS));
  await world.replaceEnded();
  await world.checkBystander();
  if (cell.role !== "hub" && cell.role !== "keeper" && cell.step !== "reconnect") {
    assert.equal(world.reconnects, reconnects, "the bystander did not reconnect");
  }
  await checkVisible(world, cell, stamp, result);
  await checkHeld(world, cell, stamp, result);
  const granted = await grantIfPublished(world, waiting, stamp, run.waiter);
  await clean(world, cell.step, granted || waiting === undefined ? 0 : 1);
  await repeat(world, cell, granted ? undefined : waiting);
  return result;
}

/**
 * If the producer dies, an open of its array waits for the next producer. Only its time limit ends
 * it.
 */
function patience({ role, fault, step }: Cell): number {
  return isLimit(fault) || (role === "producer" && fault === "SIGKILL" && step === "open")
    ? PATIENCE_MS
    : LONG_MS;
}

async function hitParty(
  world: World,
  cell: PartyCell,
  at: number,
  stamp: number,
): Promise<RunResult> {
  const victim = world.party(cell.role);
  const hit = takesPart(cell) ? hitWithin : hitMeanwhile;
  const result = await hit(world, cell, at, stamp);
  await undo(victim);
  return result;
}

/** The victim takes part in the step: the fault happens at one of its own system calls. */
async function hitWithin(
  world: World,
  cell: PartyCell,
  at: number,
  stamp: number,
): Promise<RunResult> {
  const { fault, step } = cell;
  const victim = world.party(cell.role);
  await arm(victim, fault, at);
  const done = perform(world, step, stamp, patience(cell));
  if (fault === "SIGKILL") {
    if (cell.role === "hub") {
      await Promise.race([done, victim.exited()]);
      await world.replaceEnded();
    }
    const outcomes = await done;
    // WHY asked: that it was killed may be noticed a moment after its callers got an answer.
    const hasEnded = (await victim.disarm()) === undefined;
    if (cell.role === "hub") await world.replaceEnded();
    return { hit: hasEnded && (await victim.exited()) === "SIGKILL", outcomes };
  }
  if (fault === "SIGSTOP") {
    const hit = await firstOf(done, victim);
    if (hit) {
      await glance(world, cell, stamp);
      victim.signal("SIGCONT");
    }
    return { hit, outcomes: await done };
  }
  const outcomes = await done;
  if (fault === "socket cut") return { hit: ((await victim.disarm())?.hits ?? 0) > 0, outcomes };
  return { hit: true, outcomes };
}

/** The victim has no part in the step: it is hit while another party is stopped in the middle. */
async function hitMeanwhile(
  world: World,
  cell: PartyCell,
  at: number,
  stamp: number,
): Promise<RunResult> {
  const victim = world.party(cell.role);
  const doer = world.party(whoseCalls(cell, false));
  await doer.arm("SIGSTOP", at);
  const done = perform(world, cell.step, stamp, patience(cell));
  const hit = await firstOf(done, doer);
  if (hit) await hitNow(victim, cell.fault);
  if (hit) doer.signal("SIGCONT");
  if (cell.role === "hub" && cell.fault === "SIGKILL") await world.replaceEnded();
  // Nothing in the step needs the victim.
  const outcomes = await done;
  if (cell.fault === "SIGSTOP" && hit) await glance(world, cell, stamp);
  await undo(doer);
  return { hit, outcomes };
}

/** True once the party is stopped; false if the step is done first. */
async function firstOf(done: Promise<unknown>, party: Party): Promise<boolean> {
  let over = false;
  void done.then(() => {
    over = true;
  });
  await until(`the ${party.title} is stopped, or the step is done`, () => over || party.isStopped);
  return party.isStopped;
}

/** Checks that the same step now works under the same name, and everything after it. */
async function repeat(world: World, { step }: Cell, waiting: Waiting | undefined): Promise<void> {
  const stamp = nextStamp();
  await prepare(world, step, stamp);
  for (const { role, code, message } of await perform(world, step, stamp, LONG_MS)) {
    assert.equal(code, "ok", `repeated by the ${role}: ${message}`);
  }
  await complete(world, step, stamp);
  await grantIfPublished(world, waiting, stamp);
  await clean(world, step);
}

function nextStamp(): number {
  lastStamp += 1;
  return lastStamp;
}
