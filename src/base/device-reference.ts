/** How messages and documents name a device. */
export type DeviceReference =
  | { readonly kind: "cuda"; readonly uuid: string }
  | { readonly kind: "host" };

export type DeviceKind = DeviceReference["kind"];

/** An id of the device that is the same in all processes. A kind without UUIDs has one device. */
export function uuidOf(device: DeviceReference): string {
  return "uuid" in device ? device.uuid : device.kind;
}
