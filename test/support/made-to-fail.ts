/** Whether an error is the one that the failing driver throws. */
import { hasCode } from "../../src/base/errors.js";

/** WHY also inside other errors: the error of a release is attached to the first error. */
export function isMadeToFail(error: unknown): boolean {
  if (hasCode(error, "CUDA_ERROR")) return /was made to fail/.test(error.message);
  if (error instanceof AggregateError) return error.errors.some(isMadeToFail);
  const suppressed = error as
    | { readonly error?: unknown; readonly suppressed?: unknown }
    | undefined;
  return (
    suppressed?.error !== undefined &&
    (isMadeToFail(suppressed.error) || isMadeToFail(suppressed.suppressed))
  );
}
