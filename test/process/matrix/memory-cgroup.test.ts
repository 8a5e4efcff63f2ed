/**
 * The limit of a real memory cgroup, once for each role. The other cells of the matrix make system
 * calls fail instead.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PartyRole } from "../../support/matrix/cells.js";
import { MemoryCgroup } from "../../support/matrix/memory-cgroup.js";
import { World } from "../../support/matrix/world.js";

const MiB = 1024 * 1024;
const LIMIT_BYTES = 64 * MiB;
/** Four bytes each, so together four times the limit. */
const ELEMENTS = LIMIT_BYTES;

async function within(role: PartyRole, run: (world: World) => Promise<void>): Promise<boolean> {
  const cgroup = MemoryCgroup.tryCreate(LIMIT_BYTES);
  if (cgroup === undefined) return false;
  await using _ = cgroup;
  await using world = await World.start();
  cgroup.add(world.party(role).pid);
  await run(world);
  await world.checkBystander();
  await world.clean();
  return true;
}

const NONE = "no memory cgroup can be made here";

describe("a real memory cgroup", () => {
  it("refuses a producer more memory than is left, and grants what fits", async (t) => {
    const ran = await within("producer", async (world) => {
      const producer = world.party("producer");
      const { code } = await producer.tell({ do: "create", name: "frame", elements: ELEMENTS });
      assert.equal(code, "OUT_OF_MEMORY");
      await producer.must({ do: "create", name: "frame" });
    });
    if (!ran) t.skip(NONE);
  });

  it("kills a consumer that reads too much, and the hub ends its lease", async (t) => {
    const ran = await within("consumer", async (world) => {
      const producer = world.party("producer");
      const consumer = world.party("consumer");
      await producer.must({ do: "create", name: "frame", elements: ELEMENTS });
      await producer.must({ do: "publish", name: "frame" });
      // Nobody has touched the memory yet. The process that touches a page is charged for it.
      const { code } = await consumer.tell({ do: "open", name: "frame" });
      assert.deepEqual([code, await consumer.exited()], ["ended", "SIGKILL"]);
      await world.replaceEnded();
    });
    if (!ran) t.skip(NONE);
  });

  it("does not affect a hub, which holds only descriptors", async (t) => {
    const ran = await within("hub", async (world) => {
      const producer = world.party("producer");
      await producer.must({ do: "create", name: "frame", elements: ELEMENTS });
      await producer.must({ do: "publish", name: "frame" });
      const opened = await world.bystander.open("frame");
      assert.equal(opened.byteLength, 4 * ELEMENTS);
      opened.close();
    });
    if (!ran) t.skip(NONE);
  });
});
