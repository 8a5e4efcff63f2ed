/** Schemas of whole numbers, each of which a JavaScript number is exact for. */
import * as v from "valibot";

/** From 0. */
export const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
/** From 1. */
export const positive = v.pipe(v.number(), v.safeInteger(), v.minValue(1));
