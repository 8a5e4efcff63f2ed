/** The access "copy" on a real GPU: copies of this process. Other tests look that they end. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Hub } from "../../src/index.js";
import { whyNoGpu } from "../conformance/gpu-presence.js";
import { withGpuHub } from "./gpu-hub.js";

const absence = whyNoGpu();
const COUNT = 64 * 1024 * 1024;

describe('the access "copy" on cuda:0', { skip: absence ?? false }, () => {
  let hub: Hub;
  withGpuHub((it) => {
    hub = it;
  });

  it("lets a process write an array, and nobody else sees it", async () => {
    using original = await hub.create("copy-array", { dtype: "int32", shape: [COUNT] });
    await original.iota(0, 1);
    const before = await original.checksum();
    await original.publish();
    using copy = await hub.open("copy-array", { access: "copy", dtype: "int32" });
    assert.equal(await copy.checksum(), before);
    await copy.fill(-1);
    assert.equal((await copy.slice(COUNT - 1).read())[0], -1);
    assert.equal(await original.checksum(), before);
  });

  it("copies the arrays of a bundle when they are first asked for", async () => {
    const large = { dtype: "int32", shape: [COUNT] } as const;
    const small = { dtype: "float32", shape: [1000] } as const;
    using original = await hub.createBundle("copy-bundle", { large, small, other: small });
    await original.array("large").iota(0, 1);
    await original.array("small").fill(2);
    await original.array("other").fill(3);
    await original.publish();
    const before = await original.array("large").checksum();
    using copy = await hub.openBundle("copy-bundle", { access: "copy" });
    using stream = hub.device().createStream();
    using target = await hub.create("copy-target", large);
    // The stream waits for the copy, which has only begun.
    await target.copyFrom(copy.array("large").expectDType("int32"), { stream });
    await stream.synchronize();
    assert.equal(await target.checksum(), before);
    await copy.array("large").fill(7);
    await copy.array("small").fill(5);
    const values = async (name: string) => {
      const ends = [copy, original].map((it) => it.array(name).expectDType("float32").slice(999));
      return [(await ends[0]?.read())?.[0], (await ends[1]?.read())?.[0]];
    };
    assert.deepEqual(await values("small"), [5, 2]);
    assert.deepEqual(await values("other"), [3, 3]);
    assert.equal(await original.array("large").checksum(), before);
  });

  it("copies nothing to a GPU that has no room", async () => {
    const { freeBytes } = hub.device().memoryInfo();
    const shape = [Math.floor(freeBytes * 0.6)];
    using original = await hub.create("copy-too-large", { dtype: "uint8", shape });
    await original.publish();
    await assert.rejects(hub.open("copy-too-large", { access: "copy" }), { code: "OUT_OF_MEMORY" });
    assert.equal((await hub.inspect("copy-too-large")).holders.length, 1);
  });
});
