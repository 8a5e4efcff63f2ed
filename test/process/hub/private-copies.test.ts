/** The access "copy": memory that this process may write, and whose writes nobody else sees. */
import assert from "node:assert/strict";
import { describe, it, mock } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { openShared, share } from "../../../src/doors/peer.js";
import { connectService } from "../../../src/doors/service.js";
import type { GpuDriver } from "../../../src/driver/gpu-driver.js";
import { createHostDriver } from "../../../src/driver/host/host-driver.js";
import { Device, type Hub } from "../../../src/index.js";
import { createFakeGpu } from "../../support/fake-gpu.js";
import { checkLeaks, collect } from "../../support/leak-check.js";
import { expectLibcudaInC, skipLibcudaInC } from "../../support/libcuda-in-c.js";
import { createCountingDriver, type LiveCounts } from "../../support/live-counts.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";

const kinds: Readonly<Record<string, { create(): GpuDriver; readonly skip: string | false }>> = {
  host: { create: createHostDriver, skip: false },
  "a GPU that is played": { create: createFakeGpu, skip: false },
  "a libcuda in C": { create: () => expectLibcudaInC().openDriver(), skip: skipLibcudaInC() },
};

const values = Int32Array.of(1, 2, 3);
const changed = Int32Array.of(7, 8, 9);
const array = { dtype: "int32", shape: [3] } as const;
/** Of two granules of a GPU. */
const large = { dtype: "uint8", shape: [4 << 20] } as const;

interface Site {
  readonly hub: Hub;
  readonly counts: () => LiveCounts;
}

/** Two clients of one hub on devices of a driver, which counts what is held. */
async function onDevice(create: () => GpuDriver, use: (site: Site) => Promise<void>) {
  await using testHub = await TestHub.start();
  const counting = createCountingDriver(create());
  const open = Device.open.bind(Device);
  mock.method(Device, "open", () => open("host", () => counting.driver));
  const { counts } = counting;
  const before = counts();
  const hub = await testHub.connect();
  try {
    await use({ hub, counts });
  } finally {
    await hub.close();
    mock.restoreAll();
  }
  await until("all is given back, views included", () => {
    collect();
    return isDeepStrictEqual(counts(), before);
  });
}

async function published(hub: Hub): Promise<Awaited<ReturnType<typeof create>>> {
  const made = await create(hub);
  await made.write(values);
  await made.publish();
  return made;
}

function create(hub: Hub) {
  return hub.create("frame", array);
}

for (const [kind, { create, skip }] of Object.entries(kinds)) {
  describe(`the access "copy" on ${kind}`, { skip }, () => {
    checkLeaks(() => mock.restoreAll());

    it("lets a process write an array, and nobody else sees it", async () => {
      await onDevice(create, async ({ hub }) => {
        using original = await published(hub);
        using copy = await hub.open("frame", { access: "copy", dtype: "int32" });
        using other = await hub.open("frame", { access: "copy", dtype: "int32" });
        assert.deepEqual(await copy.read(), values);
        await copy.write(changed);
        await other.fill(4);
        if (copy.device.cpuVisible) copy.view()[0] = 70;
        const seen = copy.device.cpuVisible ? Int32Array.of(70, 8, 9) : changed;
        assert.deepEqual(await copy.read(), seen);
        assert.deepEqual(await other.read(), Int32Array.of(4, 4, 4));
        assert.deepEqual(await original.read(), values);
        using reader = await hub.open("frame", { dtype: "int32" });
        assert.deepEqual(await reader.read(), values);
        assert.deepEqual([copy.buffer.access, reader.buffer.access], ["read-write", "read"]);
        original.close();
        reader.close();
        assert.deepEqual(await copy.read(), seen);
        assert.deepEqual(
          (await hub.inspect("frame")).holders.map(({ access }) => access),
          ["read", "read"],
        );
      });
    });

    it("takes a stream's work", async () => {
      await onDevice(create, async ({ hub }) => {
        using original = await hub.createBundle("model", { a: array });
        await original.array("a").write(values);
        await original.publish();
        using copy = await hub.openBundle("model", { access: "copy" });
        using target = await hub.create("target", array);
        using stream = hub.device().createStream();
        // The copy has only begun: the stream waits for it.
        await target.copyFrom(copy.array("a").expectDType("int32"), { stream });
        await stream.synchronize();
        assert.deepEqual(await target.read(), values);
      });
    });

    it("lets a process write the arrays of a bundle, and nobody else sees it", async () => {
      await onDevice(create, async ({ hub }) => {
        const arrays = { a: array, large, b: array, c: array };
        using original = await hub.createBundle("model", arrays);
        for (const name of ["a", "b", "c"]) await original.array(name).write(values);
        await original.array("large").clear();
        await original.publish();
        using copy = await hub.openBundle("model", { access: "copy" });
        for (const name of ["a", "b", "c"]) {
          const one = copy.array(name).expectDType("int32");
          assert.deepEqual(await one.read(), values);
          await one.write(changed);
        }
        await copy.array("large").fill(5);
        for (const name of ["a", "b", "c"]) {
          assert.deepEqual(await copy.array(name).read(), changed);
          assert.deepEqual(await original.array(name).read(), values);
        }
        const ends = copy.array("large").expectDType("uint8").slice({ start: 4_194_302 });
        assert.deepEqual(await ends.read(), Uint8Array.of(5, 5));
        const own = original.array("large").expectDType("uint8").slice({ start: 4_194_302 });
        assert.deepEqual(await own.read(), Uint8Array.of(0, 0));
      });
    });

    it("does not share such a copy with others", async () => {
      await onDevice(create, async ({ hub }) => {
        using _ = await published(hub);
        using copy = await hub.open("frame", { access: "copy" });
        assert.throws(() => share(copy), { code: "UNSUPPORTED" });
      });
    });

    it("opens memory of a pool", async () => {
      await onDevice(create, async ({ hub }) => {
        const { MemoryPool } = await import("../../../src/doors/interop.js");
        using pool = MemoryPool.create(hub.device(), { maxBytes: 1 << 22, shared: true });
        using original = await hub.create("pooled", { ...array, pool });
        await original.write(values);
        await original.publish();
        using copy = await hub.open("pooled", { access: "copy", dtype: "int32" });
        await copy.write(changed);
        assert.deepEqual(await copy.read(), changed);
        assert.deepEqual(await original.read(), values);
      });
    });
  });
}

for (const [kind, { create, skip }] of Object.entries(kinds).slice(1)) {
  describe(`copies of a bundle on ${kind}`, { skip }, () => {
    checkLeaks(() => mock.restoreAll());

    it("are made when an array is first asked for, and freed at close", async () => {
      await onDevice(create, async ({ hub, counts }) => {
        const arrays = { a: array, large, b: array, c: array };
        using original = await hub.createBundle("model", arrays);
        for (const name of ["a", "b", "c"]) await original.array(name).write(values);
        await original.publish();
        const bundle = await hub.openBundle("model", { access: "copy" });
        const { mappings } = counts();
        const copies = () => counts().mappings - mappings;
        assert.equal(copies(), 0);
        await bundle.array("c").read();
        // Small neighbours are copied together: a GPU allocates 2 MiB at least.
        await bundle.array("b").read();
        assert.equal(copies(), 1);
        const first = bundle.array("a").expectDType("int32");
        assert.deepEqual(await first.read(), values);
        assert.equal(copies(), 2);
        await original.array("a").write(changed);
        assert.deepEqual(await first.read(), values);
        bundle.close();
        assert.ok(copies() < 1);
        await assert.rejects(first.read(), { code: "CLOSED" });
        await assert.rejects(bundle.array("large").clear(), { code: "CLOSED" });
      });
    });

    it("are freed with the hub's connection", async () => {
      await onDevice(create, async ({ hub }) => {
        using original = await hub.createBundle("model", { a: array });
        await original.publish();
        (await hub.openBundle("model", { access: "copy" })).array("a");
      });
    });
  });
}

describe('the access "copy" elsewhere', () => {
  checkLeaks();

  it("is refused by name", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using made = await hub.create("frame", array);
    using shared = share(made);
    const copy = { access: "copy" } as never;
    const sharing = { with: "group", access: "copy" } as never;
    const calls: readonly (() => Promise<unknown>)[] = [
      () => hub.openChannel("frame", copy),
      () => hub.resumeChannel("frame", copy),
      () => hub.openTimeline("frame", copy),
      () => hub.resumeTimeline("frame", copy),
      async () => connectService(hub, "frame", copy),
      () => openShared(shared.document, copy),
      () => hub.create("other", { ...array, sharing }),
      () => hub.open("frame", { access: "private" as never }),
    ];
    for (const call of calls)
      await assert.rejects(call, (error) => {
        assert.ok(error instanceof TypeError, String(error));
        return /access/.test(error.message);
      });
  });
});
