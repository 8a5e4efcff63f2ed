/** Checks the devices and arrays that a caller passes. In JavaScript a name is a likely slip. */
import { shownValue } from "../base/shown-value.js";
import type { DeviceArray } from "./arrays/device-array.js";
import type { Device } from "./device.js";

// WHY not instanceof: the modules of both classes import code that calls these.

/** @throws TypeError */
export function checkDevice(device: Device): void {
  if ((device as Partial<Device> | null | undefined)?.driver !== undefined) return;
  throw new TypeError(
    `device must be a Device, such as Device.open("host"), not ${shownValue(device)}`,
  );
}

/** @throws TypeError */
export function checkArray(option: string, array: DeviceArray): void {
  if ((array as Partial<DeviceArray> | null | undefined)?.layout !== undefined) return;
  throw new TypeError(`${option} must be a DeviceArray, not ${shownValue(array)}`);
}
