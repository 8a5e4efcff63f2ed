/**
 * Memory that its exporter freed, on the libcuda in C of the conformance suite. Like a real driver,
 * it gives later memory the same handle bytes, and opens them.
 */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { type ArrayHandleDocument, Event, IpcArrayHandle } from "../../../src/doors/interop.js";
import type { GpuDriver } from "../../../src/driver/gpu-driver.js";
import { ImportedMarks } from "../../../src/gpu/memory/export-marks.js";
import { Device } from "../../../src/index.js";
import { Actor } from "../../support/actor.js";
import { interceptDriver } from "../../support/intercept-driver.js";
import { checkLeaks } from "../../support/leak-check.js";
import { withLibcudaInC } from "../../support/libcuda-in-c.js";
import { soon } from "../../support/until.js";
import { givenUpPromises } from "./given-up-promises.js";

const SHARES = new URL("./actors/shares-array.js", import.meta.url);
const RECORDS = new URL("./actors/records-event.js", import.meta.url);
const GPU = "cuda:0";
const DEADLINE_MS = 30_000;

interface Shared {
  readonly whole: ArrayHandleDocument;
}

const stale = (error: unknown) => hasCode(error, "STALE_HANDLE");

const TITLE = "an object that its exporter gave up, on a libcuda in C";
withLibcudaInC(TITLE, ({ folder, openDriver }) => {
  const env = { LD_LIBRARY_PATH: folder };

  describe(TITLE, () => {
    let device: Device;
    checkLeaks(() => device.close());
    beforeEach(() => {
      device = Device.open(GPU, openDriver);
    });

    givenUpPromises({ name: GPU, device: () => device, env });

    it("is refused while open here, and its successor is IN_USE until it is closed", async () => {
      await using actor = new Actor(SHARES, { args: [GPU], env });
      const { whole } = (await actor.says()) as Shared;
      const open = (json: unknown) => IpcArrayHandle.from(json).open(device);
      const array = open(whole);
      open(whole).close();
      actor.goOn();
      const later = (await actor.says()) as Shared;
      assert.equal(later.whole.handle, whole.handle);
      assert.throws(() => open(whole), stale);
      assert.throws(() => open(later.whole), { code: "IN_USE" });
      array.close();
      using newer = open(later.whole);
      assert.equal((await newer.read())[0], 100);
    });

    it("ends waits of CPUs and streams with PEER_GONE if its process was killed", async () => {
      await using actor = new Actor(RECORDS, { args: [GPU], env });
      await actor.says();
      actor.goOn();
      const descriptor = await actor.says();
      using event = Event.import(device, descriptor);
      using stream = device.createStream();
      stream.wait(event);
      const gone = { code: "PEER_GONE" };
      const waits = [event.synchronize(), stream.synchronize()].map((it) =>
        assert.rejects(soon("it fails", it), gone),
      );
      actor.kill("SIGKILL");
      await Promise.all([...waits, actor.exited()]);
      using later = device.createStream();
      assert.throws(() => later.wait(event), gone);
      assert.throws(() => Event.import(device, descriptor), stale);
    });

    it("is refused if it is freed while it is opened", async () => {
      await using actor = new Actor(SHARES, { args: [GPU], env });
      const { whole } = (await actor.says()) as Shared;
      let opened = 0;
      const after = (call: keyof GpuDriver) => {
        if (call !== "importLegacy") return;
        opened += 1;
        actor.goOn();
        waitForEnd(whole);
      };
      using slow = Device.open(GPU, () => interceptDriver(openDriver(), { after }));
      assert.throws(() => IpcArrayHandle.from(whole).open(slow), stale);
      assert.equal(opened, 1);
    });
  });
});

/** WHY without the event loop: the tested events must happen within one call. */
function waitForEnd({ exporter, mark, generation }: ArrayHandleDocument): void {
  const marks = ImportedMarks.open(exporter, mark, "the mark of a test");
  const endMs = performance.now() + DEADLINE_MS;
  const found = marks.at(mark, generation);
  while (!found.ended) assert.ok(performance.now() < endMs, "the exporter did not free its array");
  marks.close();
}
