/** The actor's side of actor.ts. */
import { createInterface } from "node:readline";

const { stdin } = process;
const input = createInterface({ input: stdin })[Symbol.asyncIterator]();
stdin.unref();

export function say(what: unknown): void {
  process.stdout.write(`${JSON.stringify(what)}\n`);
}

/** Waits for the test's next line. @returns that line */
export async function told(): Promise<string> {
  stdin.ref();
  const { done, value } = await input.next();
  stdin.unref();
  if (done) process.exit(0);
  return value;
}

export function argument(index: number): string {
  const value = process.argv[2 + index];
  if (value === undefined) throw new TypeError(`argument ${index} is missing`);
  return value;
}
