/** Errors as people read them: a line with the code, a line with what to do. */
import { CudaIpcError } from "../base/errors.js";
import { hintOf } from "./hints.js";
import { printable } from "./printable.js";
import type { Terminal } from "./terminal.js";
import { withoutLoaderWords } from "./words.js";

/** The command was called wrongly; ends it with exit code 2. */
export class UsageError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "UsageError";
  }
}

interface ErrorReport {
  readonly code: string;
  readonly message: string;
  readonly hint: string | undefined;
}

/** An error and those that came with it, the first one first. */
export function describeErrors(error: unknown): ErrorReport[] {
  if (error instanceof AggregateError) return error.errors.flatMap(describeErrors);
  return [describeError(error)];
}

export function printErrors(terminal: Terminal, error: unknown): void {
  for (const { code, message, hint } of describeErrors(error)) {
    const [first = "", ...others] = message.split("\n").map(printable);
    terminal.note(`${terminal.noteStyle(["red", "bold"], `error[${code}]`)}: ${first}`);
    for (const line of others) terminal.note(line);
    if (hint !== undefined) terminal.note(`  ${terminal.noteStyle("dim", "hint:")} ${hint}`);
  }
}

function describeError(error: unknown): ErrorReport {
  if (error instanceof CudaIpcError) {
    return { code: error.code, message: sentence(withoutLoaderWords(error.message)), hint: hintOf(error) };
  }
  if (error instanceof UsageError) return { code: "USAGE", message: sentence(error.message), hint: undefined };
  const words = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { code: "INTERNAL", message: words, hint: "This is a mistake in cuda-ipc: please report it." };
}

/** With a full stop, on one line: a line break can only come from a name or path. */
function sentence(message: string): string {
  const text = printable(message);
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
