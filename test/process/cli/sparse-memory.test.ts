/** Commands that only look at memory leave its holes as they are. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { MemoryPool } from "../../../src/gpu/memory/memory-pool.js";
import type { Hub } from "../../../src/index.js";
import { memoryFiles, pagesOf } from "../../support/memory-pages.js";
import { CliRig } from "./cli-rig.js";
import { served } from "./dashboard-rig.js";

const SIDE = 2048;
const shape = [SIDE, SIDE];
const IS_READ = /special +4194303 zero, 0 NaN, 0 infinite of 4194304 elements\n/;

/** An array of 4 MiB in which only the last element is written, and a count of its pages. */
async function sparseArray(
  hub: Hub,
  pool?: MemoryPool,
  before: ReadonlySet<number> = new Set(memoryFiles().keys()),
) {
  const array = await hub.create("sparse", { dtype: "uint8", shape, pool });
  await array.buffer.write(SIDE * SIDE - 1, Uint8Array.of(5));
  await array.publish();
  const taken = () => pagesOf(before).takenBytes;
  const atFirst = taken();
  assert.ok(atFirst < SIDE * SIDE);
  return { array, taken, atFirst };
}

describe("a look at memory with holes", () => {
  it("by inspect takes no pages, and finds the values", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    const { array, taken, atFirst } = await sparseArray(hub);
    using _ = array;
    const text = await rig.ok("inspect", "sparse", "--histogram");
    assert.match(text, IS_READ);
    assert.match(text, /range +0 to 5, /);
    assert.equal(taken(), atFirst);
  });

  it("by inspect takes no pages of a pool", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    const before = new Set(memoryFiles().keys());
    using pool = MemoryPool.create(hub.device("host"), { maxBytes: 16 << 20, shared: true });
    const { array, taken, atFirst } = await sparseArray(hub, pool, before);
    using _ = array;
    assert.match(await rig.ok("inspect", "sparse"), IS_READ);
    assert.equal(taken(), atFirst);
  });

  it("by get takes no pages, and saves the values", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    const { array, taken, atFirst } = await sparseArray(hub);
    using _ = array;
    await rig.ok("get", "sparse", "saved.bin");
    const wanted = Buffer.alloc(SIDE * SIDE);
    wanted[SIDE * SIDE - 1] = 5;
    assert.ok(readFileSync(rig.path("saved.bin")).equals(wanted));
    assert.equal(taken(), atFirst);
  });

  it("by the dashboard takes no pages", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    const { array, taken, atFirst } = await sparseArray(hub);
    using _ = array;
    const { url, child, outcome } = await served(rig);
    const entered = await fetch(url, { redirect: "manual" });
    const cookie = entered.headers.get("set-cookie")?.split(";")[0] ?? "";
    const folder = /Path=([^;]+)/.exec(entered.headers.get("set-cookie") ?? "")?.[1];
    const query = `name=sparse&id=${array.object}`;
    for (const page of ["object?", "values?", "picture?", "values?all=1&"]) {
      const path = `${new URL(url).origin}${folder}${page}${query}`;
      const answer = await fetch(path, { headers: { cookie } });
      await answer.arrayBuffer();
      assert.equal(answer.status, 200, page);
      assert.equal(taken(), atFirst, page);
    }
    child.kill("SIGTERM");
    await outcome;
  });
});
