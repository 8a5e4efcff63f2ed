import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type DeviceReference, uuidOf } from "../../../../src/base/device-reference.js";
import { CudaIpcError, hasCode } from "../../../../src/base/errors.js";
import type { Devices } from "../../../../src/client/devices.js";
import type { OpenedObject } from "../../../../src/client/objects/hub-objects.js";
import { type PlaceOptions, placeBuffer } from "../../../../src/client/objects/placement.js";
import { createHostDriver } from "../../../../src/driver/host/host-driver.js";
import { Device } from "../../../../src/gpu/device.js";
import { DeviceBuffer } from "../../../../src/gpu/memory/device-buffer.js";
import { ImportCache } from "../../../../src/gpu/memory/import-cache.js";
import type { MapAccess } from "../../../../src/os/mapping.js";
import { createFakeGpu } from "../../../support/fake-gpu.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { gpuArray, hostArray } from "../../../support/messages.js";

const HOME = "GPU-11111111-1111-1111-1111-111111111111";
const OTHER = "GPU-22222222-2222-2222-2222-222222222222";
const bytes = Uint8Array.from({ length: 24 }, (_, i) => 3 * i);
const unreachable = (error: unknown) => hasCode(error, "PEER_ACCESS_UNSUPPORTED");

/** Two simulated GPUs. The memory is on the first; the process sees both, or only the second. */
class TwoGpus {
  readonly home: Device;
  readonly other: Device;
  readonly #host = createHostDriver();
  readonly #memory: DeviceBuffer;
  readonly #seesHome: boolean;

  constructor(options: { readonly seesHome?: boolean; readonly reaches?: boolean } = {}) {
    const { seesHome = true, reaches = true } = options;
    const host = this.#host;
    this.home = Device.open("cuda:0", () => createFakeGpu({ uuid: HOME, host }));
    this.other = Device.open("cuda:0", () =>
      createFakeGpu({ uuid: OTHER, reachesPeers: reaches, host }),
    );
    this.#memory = DeviceBuffer.allocate(this.home, bytes.byteLength);
    this.#seesHome = seesHome;
  }

  async place(options: PlaceOptions, access: MapAccess = "read", descriptor = gpuArray) {
    await this.#memory.write(0, bytes);
    using fd = this.#memory.exportFd();
    const own =
      descriptor.device.kind === "cuda"
        ? { ...descriptor, device: { kind: "cuda", uuid: HOME } as const }
        : descriptor;
    const opened: OpenedObject = {
      name: "frame",
      object: 1,
      lease: 2,
      descriptor: own,
      access,
      fds: [fd],
    };
    return placeBuffer(this.#devices(), new ImportCache(), opened, options);
  }

  [Symbol.dispose](): void {
    this.#memory.close();
    this.home.close();
    this.other.close();
    this.#host.close();
  }

  #devices(): Devices {
    const byReference = (reference: DeviceReference): Device => {
      if (uuidOf(reference) === HOME && this.#seesHome) return this.home;
      throw new CudaIpcError("DEVICE_NOT_FOUND", `no ${uuidOf(reference)}`);
    };
    return {
      open: () => this.other,
      openByReference: byReference,
      findByReference: (reference: DeviceReference) =>
        this.#seesHome ? byReference(reference) : undefined,
    } as unknown as Devices;
  }
}

async function content(buffer: DeviceBuffer): Promise<Uint8Array> {
  const found = new Uint8Array(bytes.byteLength);
  await buffer.read(0, found);
  return found;
}

describe("placeBuffer", () => {
  checkLeaks();

  it("uses the device of the memory", async () => {
    using gpus = new TwoGpus();
    const { buffer, placement } = await gpus.place({});
    using _ = buffer;
    assert.deepEqual([placement, buffer.device], ["own", gpus.home]);
    assert.deepEqual(await content(buffer), bytes);
  });

  for (const seesHome of [true, false]) {
    it(`maps on a requested device, its own ${seesHome ? "visible" : "hidden"}`, async () => {
      using gpus = new TwoGpus({ seesHome });
      const { buffer, placement } = await gpus.place({ device: "cuda:1" }, "read-write");
      using _ = buffer;
      assert.deepEqual([placement, buffer.device], ["peer", gpus.other]);
      assert.deepEqual(await content(buffer), bytes);
    });
  }

  it("uses no other device without a request", async () => {
    using gpus = new TwoGpus({ seesHome: false });
    await assert.rejects(gpus.place({}), (error) => {
      return (
        hasCode(error, "DEVICE_NOT_FOUND") &&
        /to use it on another GPU, pass \{ device: "cuda:N" \}/.test(error.message)
      );
    });
  });

  it("refuses a device that cannot reach the memory, and copies only on request", async () => {
    using gpus = new TwoGpus({ reaches: false });
    await assert.rejects(gpus.place({ device: "cuda:1" }), unreachable);
    await assert.rejects(
      gpus.place({ device: "cuda:1", whenUnreachable: "copy" }, "read-write"),
      unreachable,
    );
    const { buffer, placement } = await gpus.place({ device: "cuda:1", whenUnreachable: "copy" });
    using _ = buffer;
    assert.deepEqual([placement, buffer.device, buffer.access], ["copy", gpus.other, "read"]);
    assert.deepEqual(await content(buffer), bytes);
  });

  it("lets a process write to a copy that it asked for", async () => {
    using gpus = new TwoGpus({ reaches: false });
    await assert.rejects(gpus.place({ device: "cuda:1" }, "copy"), unreachable);
    const { buffer } = await gpus.place({ device: "cuda:1", whenUnreachable: "copy" }, "copy");
    using copy = buffer;
    await copy.write(
      0,
      bytes.map((byte) => byte + 1),
    );
    assert.deepEqual(
      await content(copy),
      bytes.map((byte) => byte + 1),
    );
    using original = (await gpus.place({})).buffer;
    assert.deepEqual(await content(original), bytes);
  });

  it("refuses to place host memory on a GPU", async () => {
    using gpus = new TwoGpus();
    await assert.rejects(gpus.place({ device: "cuda:1" }, "read", hostArray), (error) =>
      hasCode(error, "UNSUPPORTED"),
    );
  });
});
