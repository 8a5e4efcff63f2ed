/** How a device is named in everything that travels between processes. */
export type DeviceReference = { readonly kind: "cuda"; readonly uuid: string } | { readonly kind: "host" };

export type DeviceKind = DeviceReference["kind"];

/** Identifies a device in every process. A device without a UUID is the only one of its kind. */
export function uuidOf(device: DeviceReference): string {
  return "uuid" in device ? device.uuid : device.kind;
}
