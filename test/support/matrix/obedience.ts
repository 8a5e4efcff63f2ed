/**
 * Runs inside a process of the matrix: carries out the test's orders and sends their outcomes.
 * Orders to the seam run at once.
 */
import { CudaIpcError } from "../../../src/base/errors.js";
import { arm, cutNow, disarm } from "./fault-seam.js";
import { type OrderMessage, type Outcome, type OutcomeMessage, READY_ID } from "./orders.js";

/** Reports that the process is ready, and carries out every order from then on. */
export function obey(
  carryOut: (order: OrderMessage) => Promise<unknown> | unknown,
  first: Outcome = { code: null },
): void {
  process.on("message", (order: OrderMessage) => {
    void outcomeOf(order, carryOut).then((outcome) => say({ ...outcome, id: order.id }));
  });
  say({ ...first, id: READY_ID });
}

export function failed(error: unknown): Outcome {
  const code = error instanceof CudaIpcError ? error.code : "other";
  return { code, message: error instanceof Error ? (error.stack ?? error.message) : String(error) };
}

function say(message: OutcomeMessage): void {
  process.send?.(message);
}

async function outcomeOf(
  order: OrderMessage,
  carryOut: (order: OrderMessage) => Promise<unknown> | unknown,
): Promise<Outcome> {
  try {
    return { code: null, value: seamOrder(order) ?? (await carryOut(order)) };
  } catch (error) {
    return failed(error);
  }
}

/** Carries out an order to the seam; undefined for any other order. */
function seamOrder(order: OrderMessage): unknown {
  if (order.do === "disarm") return disarm();
  if (order.do !== "arm" && order.do !== "cut") return undefined;
  if (order.do === "cut") cutNow();
  else arm(order.action, order.at);
  return true;
}

export function argument(index: number): string {
  return process.argv[2 + index] ?? "";
}
