/** The end of a reduction on both drivers: its result is taken once, or it is discarded. */
import { CudaIpcError } from "../../base/errors.js";
import type { PendingReduction, ReductionKind } from "../operation-calls.js";

/** @param giveBack runs once, after `take` or instead of it */
export function pendingReduction<Result>(
  kind: ReductionKind,
  take: () => Result,
  giveBack: () => void = () => {},
): PendingReduction<Result> {
  let ended = false;
  return {
    result() {
      if (ended)
        throw new CudaIpcError(
          "CLOSED",
          `Cannot take the result of ${kind}: it was taken or discarded`,
        );
      ended = true;
      try {
        return take();
      } finally {
        giveBack();
      }
    },
    discard() {
      if (ended) return;
      ended = true;
      giveBack();
    },
  };
}
