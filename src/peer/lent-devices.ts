/** Devices for memory that is opened without one being given: opened once, shared by all that is open on them, closed after the last. */
import { type DeviceReference, uuidOf } from "../base/device-reference.js";
import { Device } from "../gpu/device.js";

export interface LentDevice {
  readonly device: Device;
  /** Once, when the memory is unmapped. */
  giveBack(): void;
}

interface Lent {
  readonly device: Device;
  users: number;
}

const lent = new Map<string, Lent>();

/** The device of this name, or without a name the one that the memory is of. */
export function lendDevice(name: string | undefined, own: DeviceReference): LentDevice {
  const key = name === undefined ? `uuid ${uuidOf(own)}` : `name ${name}`;
  let entry = lent.get(key);
  if (entry === undefined) {
    entry = { device: name === undefined ? Device.openByReference(own) : Device.open(name), users: 0 };
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
