/** Parses device names as users write them: `auto`, `host`, `cuda`, `cuda:1`, `1`. */
import type { DeviceKind } from "../base/device-reference.js";
import { CudaIpcError } from "../base/errors.js";
import { didYouMean } from "../base/near-words.js";
import { shownValue } from "../base/shown-value.js";

export interface NamedDevice {
  readonly kind: DeviceKind;
  readonly ordinal: number;
}

/** The form of a name of each kind. The number is the ordinal. */
const patterns: Readonly<Record<DeviceKind, RegExp>> = {
  cuda: /^(?:cuda|(?:cuda:)?(\d{1,4}))$/,
  host: /^host$/,
};

/** The kinds of devices that `auto` tries, in this order. */
export const automaticKinds: readonly DeviceKind[] = ["cuda", "host"];

const otherNames: Readonly<Record<string, string>> = {
  gpu: "cuda:0",
  cpu: "host",
  nvidia: "cuda:0",
};

/**
 * Parses a device name. Only opening the device shows whether it exists.
 * @throws INVALID_DEVICE, TypeError
 */
export function parseDeviceName(name: string): NamedDevice | "auto" {
  if (typeof name !== "string")
    throw new TypeError(`device must be a string, not ${shownValue(name)}`);
  if (name === "auto") return name;
  for (const [kind, pattern] of Object.entries(patterns)) {
    const match = pattern.exec(name);
    if (match !== null) return { kind: kind as DeviceKind, ordinal: Number(match[1] ?? 0) };
  }
  const other = otherNames[name.toLowerCase()];
  const meant =
    other === undefined
      ? didYouMean(name, ["host", "auto", "cuda:0"])
      : ` Did you mean "${other}"?`;
  const wanted = 'wanted "host", "auto", or "cuda:N" or "N" with the number of a GPU';
  throw new CudaIpcError(
    "INVALID_DEVICE",
    `Cannot open device ${shownValue(name)}: ${wanted}${meant === "" ? "" : `.${meant}`}`,
  );
}
