/** Schemas that several messages and descriptors share. */
import * as v from "valibot";
import type { DeviceKind, DeviceReference } from "../base/device-reference.js";
import { isValidName } from "./names.js";

/** From 0. */
export const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
/** From 1. */
export const positive = v.pipe(v.number(), v.safeInteger(), v.minValue(1));

export const deviceSchema = v.variant("kind", [
  v.strictObject({
    kind: v.literal("cuda"),
    uuid: v.pipe(v.string(), v.regex(/^(GPU|MIG)-[0-9a-f-]{36}$/)),
  }),
  v.strictObject({ kind: v.literal("host") }),
]);

interface KindFacts {
  /** Memory of this kind is in memory files. Only the driver can look into other memory. */
  readonly memoryFiles: boolean;
  /** How memory of this kind travels. */
  readonly mechanisms: readonly string[];
}

const factsByKind: Readonly<Record<DeviceKind, KindFacts>> = {
  cuda: { memoryFiles: false, mechanisms: ["vmm", "pool"] },
  host: { memoryFiles: true, mechanisms: ["memfd", "pool"] },
};

export function factsOf(device: DeviceReference): KindFacts {
  return factsByKind[device.kind];
}

/** Free text: a program, a version. */
export const word = v.pipe(v.string(), v.maxLength(128));

/** The name of a shared object. */
export const goodName = v.pipe(v.string(), v.check(isValidName, "not a valid name"));
