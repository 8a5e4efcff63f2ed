/** Device names as users write them: `host`, `cuda`, `cuda:1`. */
import type { DeviceKind } from "../base/device-reference.js";

export interface NamedDevice {
  readonly kind: DeviceKind;
  readonly ordinal: number;
}

/** What a name of each kind looks like. The number, if there is one, is the ordinal. */
const patterns: Readonly<Record<DeviceKind, RegExp>> = {
  cuda: /^cuda(?::(\d{1,4}))?$/,
  host: /^host$/,
};

/** The kinds of devices that `auto` tries, in this order. */
export const automaticKinds: readonly DeviceKind[] = ["cuda", "host"];

/** Undefined if the name is not the name of a device. */
export function parseDeviceName(name: string): NamedDevice | undefined {
  for (const [kind, pattern] of Object.entries(patterns)) {
    const match = pattern.exec(name);
    if (match !== null) return { kind: kind as DeviceKind, ordinal: Number(match[1] ?? 0) };
  }
  return undefined;
}
