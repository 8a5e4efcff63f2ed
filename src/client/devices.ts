/** The devices of one connection, each opened once and found again by name or UUID. */
import { type DeviceReference, uuidOf } from "../base/device-reference.js";
import { hasCode } from "../base/errors.js";
import { Scope } from "../base/scope.js";
import { Device } from "../gpu/device.js";

export class Devices {
  readonly #defaultName: string | undefined;
  readonly #byName = new Map<string, Device>();
  readonly #byUuid = new Map<string, Device>();

  /** @param defaultName the device that `open` opens without a name */
  constructor(defaultName: string | undefined) {
    this.#defaultName = defaultName;
  }

  open(name: string | undefined): Device {
    const wanted = name ?? this.#defaultName ?? "";
    const known = this.#byName.get(wanted);
    if (known !== undefined) return known;
    const device = this.#unique(Device.open(wanted === "" ? undefined : wanted));
    this.#byName.set(wanted, device);
    return device;
  }

  openByReference(reference: DeviceReference): Device {
    return this.#byUuid.get(uuidOf(reference)) ?? this.#unique(Device.openByReference(reference));
  }

  /** As `openByReference`, but undefined if this process does not see the device. */
  findByReference(reference: DeviceReference): Device | undefined {
    try {
      return this.openByReference(reference);
    } catch (error) {
      if (hasCode(error, "DEVICE_NOT_FOUND")) return undefined;
      throw error;
    }
  }

  /** Resolves once no transfer of any device is under way. */
  async idle(): Promise<void> {
    await Promise.all([...this.#byUuid.values()].map((device) => device.idle()));
  }

  close(): void {
    const scope = new Scope();
    for (const device of this.#byUuid.values()) scope.defer(() => device.close());
    this.#byName.clear();
    this.#byUuid.clear();
    scope.close();
  }

  /** The device, or the one that was already opened under another name. */
  #unique(device: Device): Device {
    const known = this.#byUuid.get(device.uuid);
    if (known !== undefined) {
      device.close();
      return known;
    }
    this.#byUuid.set(device.uuid, device);
    return device;
  }
}
