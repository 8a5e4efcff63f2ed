/** The limit of a real memory cgroup, once for each who may be hit by it; the cells of the matrix have the system calls fail instead. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PartyRole } from "../../support/matrix/cells.js";
import { MemoryCgroup } from "../../support/matrix/memory-cgroup.js";
import { World } from "../../support/matrix/world.js";

const MiB = 1024 * 1024;
const LIMIT_BYTES = 64 * MiB;
/** Of four bytes: four times what the limit allows. */
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
  it("refuses a producer more than it has left, and lets it make what it has room for", async (t) => {
    const ran = await within("producer", async (world) => {
      const producer = world.party("producer");
      const { code } = await producer.tell({ do: "create", name: "frame", elements: ELEMENTS });
      assert.equal(code, "OUT_OF_MEMORY");
      await producer.must({ do: "create", name: "frame" });
    });
    if (!ran) t.skip(NONE);
  });

  it("ends a consumer that reads more than it may have, and its lease", async (t) => {
    const ran = await within("consumer", async (world) => {
      const producer = world.party("producer");
      const consumer = world.party("consumer");
      await producer.must({ do: "create", name: "frame", elements: ELEMENTS });
      await producer.must({ do: "publish", name: "frame" });
      // Nobody has touched the memory yet, and who does so pays for it.
      const { code } = await consumer.tell({ do: "open", name: "frame" });
      assert.deepEqual([code, await consumer.exited()], ["ended", "SIGKILL"]);
      await world.replaceEnded();
    });
    if (!ran) t.skip(NONE);
  });

  it("is no matter to a hub, which holds descriptors alone", async (t) => {
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
