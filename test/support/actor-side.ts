/** The actor's side of actor.ts. */
import { createInterface } from "node:readline";

const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

export function say(what: unknown): void {
  process.stdout.write(`${JSON.stringify(what)}\n`);
}

/** Waits until the test lets this actor go on. */
export async function told(): Promise<void> {
  const { done } = await input.next();
  if (done) process.exit(0);
}

export function argument(index: number): string {
  const value = process.argv[2 + index];
  if (value === undefined) throw new TypeError(`argument ${index} is missing`);
  return value;
}
