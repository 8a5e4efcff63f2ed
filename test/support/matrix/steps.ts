/** The steps of the matrix: what must exist before, and which party does what. */
import assert from "node:assert/strict";
import { doersOf, type PartyRole, type Step } from "./cells.js";
import type { Order } from "./orders.js";
import type { World } from "./world.js";

/** WHY one name in all cells: each also shows that the name is free again. */
export const NAME = "frame";
/** The stamp of the array that the step `replace` replaces. */
export const OLD_STAMP = 6;

type Deed = "create" | "write" | "publish" | "open";

/** The outcome of a call: `ok`, the code of its error, or `ended` if its process died. */
export interface CallOutcome {
  readonly role: PartyRole;
  readonly code: string;
  readonly message: string;
}

const BEFORE: Readonly<Record<Exclude<Step, "replace">, readonly Deed[]>> = {
  create: [],
  publish: ["create", "write"],
  open: ["create", "write", "publish"],
  read: ["create", "write", "publish", "open"],
  write: ["create"],
  close: ["create", "write", "publish", "open"],
  reconnect: ["create", "write", "publish", "open"],
};

export async function prepare(world: World, step: Step, stamp: number): Promise<void> {
  if (step === "replace") return prepareReplace(world, stamp);
  for (const deed of BEFORE[step]) {
    const party = world.party(deed === "open" ? "consumer" : "producer");
    await party.must(
      deed === "write" ? { do: "write", name: NAME, stamp } : { do: deed, name: NAME },
    );
  }
}

/**
 * The consumer holds the old array, and the new one is written. WHY both are pinned: the publisher
 * alone holds the new one, and only a pinned array outlives a publisher that is killed.
 */
async function prepareReplace(world: World, stamp: number): Promise<void> {
  const producer = world.party("producer");
  for (const replace of [false, true]) {
    await producer.must({ do: "create", name: NAME, lifetime: "pinned", replace });
    await producer.must({ do: "write", name: NAME, stamp: replace ? stamp : OLD_STAMP });
    if (replace) continue;
    await producer.must({ do: "publish", name: NAME });
    await world.party("consumer").must({ do: "open", name: NAME });
  }
}

/**
 * Cleans the world after the step.
 * @throws NOT_FOUND after the step `replace` if no array has the name
 */
export async function clean(world: World, step: Step, waitingOpens = 0): Promise<void> {
  if (step === "replace") await world.bystander.remove(NAME);
  await world.clean(waitingOpens);
}

/** Does what a reader still needs after the step, and checks that the reader sees the data. */
export async function complete(world: World, step: Step, stamp: number): Promise<void> {
  const producer = world.party("producer");
  if (step === "create") await producer.must({ do: "write", name: NAME, stamp });
  if (["create", "write", "publish", "replace"].includes(step)) {
    await producer.must({ do: "publish", name: NAME });
    assert.equal(await world.party("consumer").must({ do: "open", name: NAME }), stamp);
  }
  if (step === "close") return;
  assert.equal(await world.party("consumer").must({ do: "read", name: NAME, stamp }), stamp);
}

/** Does the step. @returns the outcome of each party's call */
export async function perform(
  world: World,
  step: Step,
  stamp: number,
  timeoutMs: number,
): Promise<CallOutcome[]> {
  if (step === "reconnect") {
    await world.cutAll();
    return Promise.all(
      doersOf.reconnect.map((role) => call(world, role, { do: "ask" }, timeoutMs)),
    );
  }
  const order: Order =
    step === "read" || step === "write"
      ? { do: step, name: NAME, stamp }
      : { do: step === "replace" ? "publish" : step, name: NAME };
  const outcomes: CallOutcome[] = [];
  for (const role of doersOf[step]) outcomes.push(await call(world, role, order, timeoutMs));
  return outcomes;
}

async function call(
  world: World,
  role: PartyRole,
  order: Order,
  timeoutMs: number,
): Promise<CallOutcome> {
  const { code, message = "" } = await world.party(role).tell(order, timeoutMs);
  return { role, code: code ?? "ok", message };
}
