/**
 * The helper's side of helper-process.ts: calls the function that an order names. Ends with its
 * input.
 */
import { createInterface } from "node:readline";

export type Orders = Readonly<Record<string, (fields: never) => unknown>>;

export function serve(orders: Orders): void {
  const input = createInterface({ input: process.stdin });
  input.on("line", (line) => void carryOut(orders, JSON.parse(line)));
  // No more orders can come.
  input.on("close", () => process.exit(0));
}

async function carryOut(
  orders: Orders,
  request: { readonly id: number; readonly order: string },
): Promise<void> {
  const { id, order } = request;
  let answer: object;
  try {
    const does = orders[order];
    if (does === undefined) throw new Error(`No order ${order}`);
    answer = { id, ok: true, result: (await does(request as never)) ?? null };
  } catch (error) {
    answer = {
      id,
      ok: false,
      error: error instanceof Error ? `${order}: ${error.stack}` : String(error),
    };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
