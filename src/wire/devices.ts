/** The devices that descriptors name, and what is known of each kind without opening one. */
import * as v from "valibot";
import type { DeviceKind, DeviceReference } from "../base/device-reference.js";

export const deviceSchema = v.variant("kind", [
  v.strictObject({
    kind: v.literal("cuda"),
    uuid: v.pipe(v.string(), v.regex(/^(GPU|MIG)-[0-9a-f-]{36}$/)),
  }),
  v.strictObject({ kind: v.literal("host") }),
]);

interface KindFacts {
  /** Whether the memory is in memory files. Only the driver can look into memory of other kinds. */
  readonly memoryFiles: boolean;
  /** How memory of such a device travels by descriptor. */
  readonly mechanisms: readonly string[];
}

const factsByKind: Readonly<Record<DeviceKind, KindFacts>> = {
  cuda: { memoryFiles: false, mechanisms: ["vmm", "pool"] },
  host: { memoryFiles: true, mechanisms: ["memfd", "pool"] },
};

export function factsOf(device: DeviceReference): KindFacts {
  return factsByKind[device.kind];
}
