/** Compares two arrays on their device: bit by bit, or within a tolerance. */

import { checkArithmetic } from "../../array/arithmetic.js";
import { dtypeFacts } from "../../array/dtype.js";
import { type Check, optionsOf } from "../../base/option-checks.js";
import { shownValue } from "../../base/shown-value.js";
import type { Comparison } from "../../driver/operation-calls.js";
import { checkArray } from "../check-arguments.js";
import { operationChecks } from "../option-checks.js";
import { checkAlike, type OperationOptions, reduce, type Use } from "./array-operations.js";
import type { DeviceArray } from "./device-array.js";

/**
 * With a tolerance, elements x and y are equal if |x - y| <= atol + rtol * |y|, as in
 * `numpy.isclose`. NaN equals nothing, and an infinity only itself.
 */
export interface CompareOptions extends OperationOptions {
  /** The tolerance relative to the other array's element. 0 if only `atol` is given. */
  readonly rtol?: number | undefined;
  /** The absolute tolerance. 0 if only `rtol` is given. */
  readonly atol?: number | undefined;
}

const aTolerance: Check = (option, value) => {
  if (typeof value === "number" && value >= 0 && value < Number.POSITIVE_INFINITY) return;
  const message = `${option} must be a finite number from 0, not ${shownValue(value)}`;
  throw typeof value === "number" ? new RangeError(message) : new TypeError(message);
};

const checkOptions = optionsOf<CompareOptions>("compare()", {
  ...operationChecks,
  rtol: aTolerance,
  atol: aTolerance,
});

export async function compareArrays(
  one: DeviceArray,
  other: DeviceArray,
  options: CompareOptions,
): Promise<Comparison> {
  checkArray("other", other);
  checkOptions(options);
  checkAlike("compare", one, other);
  const uses: readonly [Use, Use] = [
    { array: one, intent: "read" },
    { array: other, intent: "read" },
  ];
  const { dtype, elementCount: count } = one;
  const { rtol, atol } = options;
  if (rtol === undefined && atol === undefined) {
    const { byteSize: elementBytes } = dtypeFacts(dtype);
    return reduce("compare", uses, options, (driver, stream, [a = 0n, b = 0n]) =>
      driver.enqueueReduction<"compare">(stream, { kind: "compare", elementBytes, a, b, count }),
    );
  }
  const close = {
    kind: "close",
    dtype: checkArithmetic("compare with a tolerance", dtype),
    count,
    rtol: rtol ?? 0,
    atol: atol ?? 0,
  } as const;
  return reduce("compare", uses, options, (driver, stream, [a = 0n, b = 0n]) =>
    driver.enqueueReduction<"close">(stream, { ...close, a, b }),
  );
}
