/** Memory that its exporter freed, on the host device, and every mark that must be refused. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { limits } from "../../../src/base/limits.js";
import { type ArrayHandleDocument, IpcArrayHandle } from "../../../src/doors/interop.js";
import { Device, DeviceArray } from "../../../src/index.js";
import { openFdCount } from "../../../src/os/owned-fd.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { givenUpPromises } from "./given-up-promises.js";

const SHARES = new URL("./actors/shares-array.js", import.meta.url);

describe("an object that its exporter gave up, on the host device", () => {
  let device: Device;
  checkLeaks(() => device.close());
  beforeEach(() => {
    device = Device.open("host");
  });

  givenUpPromises({ name: "host", device: () => device });

  it("is refused with a mark of another array", async () => {
    await using actor = new Actor(SHARES, { args: ["host"] });
    const { whole } = (await actor.says()) as { whole: ArrayHandleDocument };
    const { mark } = whole;
    const fds = openFdCount();
    const wrong: readonly Partial<ArrayHandleDocument>[] = [
      { generation: whole.generation + 1 },
      { mark: { ...mark, slot: mark.slot + 1 } },
      { mark: { ...mark, slot: limits.exportsPerDeviceMax - 1 } },
      { mark: { ...mark, fileNumber: mark.fileNumber + 1 } },
      { mark: { ...mark, fd: 0 } },
      { mark: { ...mark, fd: mark.fd - 1 } },
      { mark: { ...mark, fd: mark.fd + 1000 } },
      { mark: { ...mark, fd: 2 ** 31 - 1 } },
    ];
    for (const change of wrong) {
      assert.throws(
        () => IpcArrayHandle.from({ ...whole, ...change }).open(device),
        (error) => hasCode(error, "STALE_HANDLE"),
        JSON.stringify(change),
      );
    }
    assert.equal(openFdCount(), fds);
    using array = IpcArrayHandle.from(whole).open(device);
    assert.equal((await array.read())[1], 1);
  });

  it("costs the exporter one descriptor for all marks, until its device is closed", () => {
    const fds = openFdCount();
    const share = () =>
      DeviceArray.allocate(device, { dtype: "int8", shape: [1], mechanism: "legacy" });
    const arrays = Array.from({ length: 10 }, share);
    const events = Array.from({ length: 10 }, () => device.createEvent());
    const slots = new Set(
      [
        ...arrays.map((it) => IpcArrayHandle.of(it).toJSON()),
        ...events.map((it) => it.export()),
      ].map(({ mark }) => mark.slot),
    );
    assert.deepEqual([...slots], [...Array(20).keys()]);
    for (const each of [...arrays, ...events]) each.close();
    // The file of marks, and the driver's arena of events, whose slots are reused.
    assert.equal(openFdCount(), fds + 2);
    using again = share();
    assert.ok(slots.has(IpcArrayHandle.of(again).toJSON().mark.slot));
  });
});
