/**
 * Opens devices for callers that open memory without a device. Each device is opened once, shared
 * by its users, and closed after the last of them.
 */
import { type DeviceReference, uuidOf } from "../base/device-reference.js";
import { Device } from "../gpu/device.js";

export interface LentDevice {
  readonly device: Device;
  /** Gives up this use of the device. Call it once, when the memory is unmapped. */
  giveBack(): void;
}

interface Lent {
  readonly device: Device;
  users: number;
}

const lent = new Map<string, Lent>();

/**
 * Lends the device with this name. Without a name, lends the device of the memory (`own`), or the
 * default device if that is unknown.
 */
export function lendDevice(name: string | undefined, own: DeviceReference | undefined): LentDevice {
  const isOwn = name === undefined && own !== undefined;
  const key = isOwn ? `uuid ${uuidOf(own)}` : `name ${name}`;
  let entry = lent.get(key);
  if (entry === undefined) {
    entry = { device: isOwn ? Device.openByReference(own) : Device.open(name), users: 0 };
    lent.set(key, entry);
  }
  const { device } = entry;
  entry.users += 1;
  return { device, giveBack: () => giveBack(key) };
}

function giveBack(key: string): void {
  const entry = lent.get(key);
  if (entry === undefined) return;
  entry.users -= 1;
  if (entry.users > 0) return;
  lent.delete(key);
  entry.device.close();
}
