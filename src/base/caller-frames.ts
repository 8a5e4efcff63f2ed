/**
 * Adds the lines of the caller to the stack of an error that was made in a callback, or deep in the
 * package. V8 keeps ten lines, and for a timer or a socket none of them is the user's.
 */

const FRAMES_MAX = 50;

/**
 * Call it where an async function of the package is awaited by its caller, after an `await`. Costs
 * nothing unless something fails. Returns the error.
 */
export function withCallers(error: unknown): unknown {
  if (!(error instanceof Error) || !Object.isExtensible(error)) return error;
  const here = { stack: "" };
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = FRAMES_MAX;
  Error.captureStackTrace(here, withCallers);
  Error.stackTraceLimit = stackTraceLimit;
  // A program may replace Error.prepareStackTrace, whose results need not be text.
  const { stack } = error;
  if (typeof stack !== "string" || typeof here.stack !== "string") return error;
  const known = new Set(stack.split("\n"));
  const missing = here.stack
    .split("\n")
    .slice(1)
    .filter((line) => !known.has(line));
  if (missing.length > 0) error.stack = [stack, ...missing].join("\n");
  return error;
}
