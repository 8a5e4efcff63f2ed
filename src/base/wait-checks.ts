/** Checks the options of public calls that only wait. */
import type { WaitOptions } from "./deadline.js";
import { optionsOf, waitChecks } from "./option-checks.js";

/** @throws TypeError, RangeError */
export const checkWait = optionsOf<WaitOptions>("this call", waitChecks);
