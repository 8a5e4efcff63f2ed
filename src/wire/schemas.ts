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

/**
 * How memory travels, and whether its descriptor is a memory file of its own. The hub checks such a
 * file, and reopens it for reading only. For legacy memory it is a mark: see legacy-mark.ts.
 */
const ownFileOf = { vmm: false, memfd: true, pool: false, legacy: true } as const;

type Mechanism = keyof typeof ownFileOf;

export const mechanismSchema = v.picklist(Object.keys(ownFileOf) as Mechanism[]);

export function hasOwnFile({ mechanism }: { readonly mechanism: Mechanism }): boolean {
  return ownFileOf[mechanism];
}

/** Whether the memory ends with its owner, because only a handle leads to it. */
export function endsWithOwner({ mechanism }: { readonly mechanism: Mechanism }): boolean {
  return mechanism === "legacy";
}

interface KindFacts {
  /** Memory of this kind is in memory files. Only the driver can look into other memory. */
  readonly memoryFiles: boolean;
  readonly mechanisms: readonly Mechanism[];
}

const factsByKind: Readonly<Record<DeviceKind, KindFacts>> = {
  cuda: { memoryFiles: false, mechanisms: ["vmm", "pool", "legacy"] },
  host: { memoryFiles: true, mechanisms: ["memfd", "pool", "legacy"] },
};

export function factsOf(device: DeviceReference): KindFacts {
  return factsByKind[device.kind];
}

/** Free text: a program, a version. */
export const word = v.pipe(v.string(), v.maxLength(128));

/** The name of a shared object. */
export const goodName = v.pipe(v.string(), v.check(isValidName, "not a valid name"));
