/** Checks options that name devices, dtypes and streams. See base/option-checks. */
import { type DType, parseDType } from "../array/dtype.js";
import { type Check, checkShape, oneOf, optionsOf, waitChecks } from "../base/option-checks.js";
import { shownValue } from "../base/shown-value.js";
import { parseDeviceName } from "../driver/device-names.js";
import { Stream } from "./order/stream.js";

/** @throws INVALID_DEVICE */
export const aDeviceName: Check = (_option, value) => void parseDeviceName(value as string);

/** @throws UNSUPPORTED_DTYPE */
export const aDType: Check = (option, value) => {
  if (typeof value === "string") parseDType(value);
  else
    throw new TypeError(`${option} must be a string such as "float32", not ${shownValue(value)}`);
};

export const aStream: Check = (option, value) => {
  if (value instanceof Stream) return;
  throw new TypeError(`${option} must be a Stream of this package, not ${shownValue(value)}`);
};

/** Checks the dtype and shape of a new array, and how it is shared. */
export const checkNewArray = optionsOf<{
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly mechanism?: "legacy" | undefined;
}>(
  "a new array",
  { dtype: aDType, shape: checkShape, mechanism: oneOf("legacy") },
  {
    needs: ["dtype", "shape"],
    such: '{ dtype: "float32", shape: [2, 3] }',
  },
);

/** The checks for the options of operations on arrays. */
export const operationChecks = { ...waitChecks, stream: aStream } as const;
