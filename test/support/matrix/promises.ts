/** What must hold for the others during and after a fault of one process. */
import assert from "node:assert/strict";
import { CudaIpcError, hasCode } from "../../../src/base/errors.js";
import type { SharedArray } from "../../../src/client/objects/shared-array.js";
import { soon, until } from "../until.js";
import type { Cell } from "./cells.js";
import { LONG_MS } from "./party.js";
import { assertStamp, stampOf } from "./stamped.js";
import { type CallOutcome, NAME, OLD_STAMP } from "./steps.js";
import type { World } from "./world.js";

/** How long the bystander waits for a stopped hub. */
const GLANCE_MS = 100;

/** A waiting open. WHY an object: a promise that resolves to a promise resolves to its value. */
export interface Waiting {
  readonly array: Promise<SharedArray>;
}

export interface RunResult {
  readonly hit: boolean;
  readonly outcomes: readonly CallOutcome[];
}

/**
 * While a process is stopped, others keep what they have, and get an answer or their own timeout.
 */
export async function glance(world: World, cell: Cell, stamp: number): Promise<void> {
  await world.checkMapped();
  if (cell.role !== "hub") {
    await world.checkBystander();
    if (cell.step === "replace") await checkVisible(world, cell, stamp);
  } else {
    const asked = world.bystander.status({ timeoutMs: GLANCE_MS });
    const answered = asked.then(
      () => "ok",
      (error: unknown) => (hasCode(error, "TIMEOUT") ? "TIMEOUT" : String(error)),
    );
    const answer = await soon("a request to a stopped hub times out", answered);
    assert.equal(answer, "TIMEOUT");
  }
}

/** In steps before the publication, makes the bystander wait for the name. */
export async function waitFor(world: World, { step }: Cell): Promise<Waiting | undefined> {
  if (step !== "create" && step !== "write" && step !== "publish") return undefined;
  const waiting = world.bystander.open(NAME, { timeoutMs: 3 * LONG_MS });
  waiting.catch(() => {});
  await until(
    "the bystander waits",
    async () => (await world.bystander.status()).waitingOpens === 1,
  );
  return { array: waiting };
}

/**
 * Checks that an open of the name finds only published, complete data. While an array replaces
 * another one, it finds one of the two: the new one if that was said to be published, and the old
 * one if publishing was refused.
 */
export async function checkVisible(
  world: World,
  { step, role }: Cell,
  stamp: number,
  { outcomes }: Pick<RunResult, "outcomes"> = { outcomes: [] },
): Promise<void> {
  let array: SharedArray;
  // The next hub has the name at once, and the memory when its publisher is back.
  const wait = step === "replace" && role === "hub";
  try {
    array = await world.bystander.open(NAME, { wait, timeoutMs: LONG_MS });
  } catch (error) {
    assert.ok(hasCode(error, "NOT_FOUND") && step !== "replace", String(error));
    return;
  }
  const found = stampOf((await array.expectDType("int32").read()) as Int32Array);
  array.close();
  assert.ok(step !== "create" && step !== "write", "unpublished data is not visible");
  const code = step === "replace" ? (outcomes[0]?.code ?? "ended") : "ok";
  const allowed = code === "ended" ? [OLD_STAMP, stamp] : [code === "ok" ? stamp : OLD_STAMP];
  assert.ok(allowed.includes(found), `found ${found}, wanted ${allowed.join(" or ")}`);
}

/** Checks that a living consumer still has the array that it had opened. */
export async function checkHeld(
  world: World,
  { step, role }: Cell,
  stamp: number,
  { outcomes }: RunResult,
): Promise<void> {
  const opened =
    ["read", "replace", "reconnect"].includes(step) ||
    (step === "open" && outcomes[0]?.code === "ok");
  if (!opened || role === "consumer") return;
  const held = step === "replace" ? OLD_STAMP : stamp;
  assert.equal(await world.party("consumer").must({ do: "read", name: NAME, stamp }), held);
}

/**
 * Once the array is published, checks that the waiting bystander gets it.
 * @returns whether its wait is over
 */
export async function grantIfPublished(
  world: World,
  waiting: Waiting | undefined,
  stamp: number,
  mayFailWith: readonly string[] = [],
): Promise<boolean> {
  if (waiting === undefined) return false;
  const { waitingOpens } = await world.bystander.status();
  const { published } = (await world.bystander.list()).find(({ name }) => name === NAME) ?? {
    published: false,
  };
  if (!published && waitingOpens === 1) return false;
  let array: SharedArray;
  try {
    array = await soon("the published array is granted", waiting.array);
  } catch (error) {
    if (error instanceof CudaIpcError && mayFailWith.includes(error.code)) return true;
    throw error;
  }
  assertStamp(
    (await array.expectDType("int32").read()) as Int32Array,
    stamp,
    "what the bystander waited for",
  );
  array.close();
  return true;
}
