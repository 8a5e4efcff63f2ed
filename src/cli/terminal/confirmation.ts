/** Asks the person at the terminal. */
import { createInterface } from "node:readline/promises";
import type { CommandContext } from "../command-context.js";

/** Whether a person can be asked. */
export function canAsk(): boolean {
  return process.stdin.isTTY === true && process.stderr.isTTY === true;
}

/** Whether the answer is yes. Anything else, and the end of the input, is no. @throws ABORTED */
export async function confirm(
  question: string,
  { signal }: Pick<CommandContext, "signal">,
): Promise<boolean> {
  // WHY no terminal: Ctrl-C then reaches this process as a signal, as in all commands.
  const lines = createInterface({ input: process.stdin, terminal: false });
  const ended = new Promise<string>((resolve) => lines.once("close", () => resolve("")));
  try {
    process.stderr.write(`${question} [y/N] `);
    const answer = await Promise.race([lines.question("", { signal }), ended]);
    return /^y(es)?$/i.test(answer.trim());
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    lines.close();
    process.stdin.unref();
  }
}
