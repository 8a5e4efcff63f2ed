/** The helper's side of helper-process.ts: does each order by the function of its name, and ends with its standard input. */
import { createInterface } from "node:readline";

export type Orders = Readonly<Record<string, (fields: never) => unknown>>;

export function serve(orders: Orders): void {
  const input = createInterface({ input: process.stdin });
  input.on("line", (line) => void carryOut(orders, JSON.parse(line)));
  // WHY: nobody is left to tell it anything.
  input.on("close", () => process.exit(0));
}

async function carryOut(orders: Orders, request: { readonly id: number; readonly order: string }): Promise<void> {
  const { id, order } = request;
  let answer: object;
  try {
    const does = orders[order];
    if (does === undefined) throw new Error(`No order ${order}`);
    answer = { id, ok: true, result: (await does(request as never)) ?? null };
  } catch (error) {
    answer = { id, ok: false, error: error instanceof Error ? `${order}: ${error.stack}` : String(error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
