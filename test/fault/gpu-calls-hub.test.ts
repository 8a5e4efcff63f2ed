/**
 * Each call of the driver fails in turn while a client shares memory through a hub. The error is
 * thrown, and nothing is left on either side.
 */
import assert from "node:assert/strict";
import { describe, it, mock } from "node:test";
import type { Hub } from "../../src/client/hub.js";
import { createHostDriver } from "../../src/driver/host/host-driver.js";
import { Device } from "../../src/gpu/device.js";
import { createFailingDriver } from "../support/failing-driver.js";
import { createFakeGpu } from "../support/fake-gpu.js";
import { checkLeaks } from "../support/leak-check.js";
import { createCountingDriver } from "../support/live-counts.js";
import { isMadeToFail } from "../support/made-to-fail.js";
import { TestHub } from "../support/test-hub.js";
import { until } from "../support/until.js";

const CALLS_MAX = 500;
const VALUES = Int32Array.of(1, 2, 3);

/** Every step that uses the driver. Each object is closed before the hub is left. */
async function shareAndOpen(hub: Hub): Promise<void> {
  using array = await hub.create("frame", { dtype: "int32", shape: [3] });
  await array.write(VALUES);
  await array.publish();
  using opened = await hub.open("frame", { access: "read-write" });
  await opened.write(await array.read());
  assert.deepEqual(await opened.read(), VALUES);
  using bundle = await hub.createBundle("model", { a: { dtype: "int32", shape: [3] } });
  await bundle.array("a").write(VALUES);
  await bundle.publish();
  using copy = await hub.open("frame", { access: "copy" });
  await copy.write(VALUES);
  using copies = await hub.openBundle("model", { access: "copy" });
  await copies.array("a").write(VALUES);
}

describe("a failing n-th call of a driver while a hub shares memory", () => {
  checkLeaks(() => mock.restoreAll());

  for (const [kind, create] of [
    ["host", createHostDriver],
    ["cuda", createFakeGpu],
  ] as const) {
    it(`is thrown by its operation and leaves nothing on either side (${kind})`, async () => {
      await using testHub = await TestHub.start();
      await using other = await testHub.connect();
      const open = Device.open.bind(Device);
      const failed = new Set<string>();
      for (let failAt = 1; failAt < CALLS_MAX; failAt += 1) {
        const counting = createCountingDriver(create());
        const before = counting.counts();
        const failing = createFailingDriver(counting.driver, { failAt });
        mock.method(Device, "open", () =>
          open(kind === "host" ? "host" : "cuda:0", () => failing.driver),
        );
        let thrown: unknown;
        const hub = await testHub.connect();
        try {
          await shareAndOpen(hub);
        } catch (error) {
          thrown = error;
        }
        // WHY before the client leaves: its leases end with it, and a leaked one would not show.
        const { leases } = await hub.status();
        assert.equal(leases, 0, `call ${failAt}, ${failing.failed}`);
        await hub.close().catch((error: unknown) => {
          thrown ??= error;
        });
        mock.restoreAll();
        const what = `call ${failAt}, ${failing.failed}`;
        assert.deepEqual(counting.counts(), before, what);
        await until(`after ${what} nothing is left on the hub`, async () => {
          const { objects, leases, clients } = await other.status();
          return objects + leases === 0 && clients === 1;
        });
        if (failing.failed === undefined) {
          assert.equal(thrown, undefined);
          for (const call of [
            "createMemory",
            "mapMemory",
            "exportMemory",
            "importMemory",
            "unmapMemory",
            "close",
          ])
            assert.ok(failed.has(call), `${call} is not among ${[...failed].join(", ")}`);
          return;
        }
        failed.add(failing.failed);
        assert.ok(isMadeToFail(thrown), `${what}: found ${String(thrown)}`);
      }
      assert.fail(`more than ${CALLS_MAX} calls`);
    });
  }
});
