import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Hub } from "../../../src/client/hub.js";
import type { ObjectSummary } from "../../../src/index.js";
import { CliRig, eventually } from "./cli-rig.js";
import { skipTerminal, TerminalRig } from "./terminal-rig.js";

interface Collected {
  readonly objects: readonly (ObjectSummary & { removal: { bytes: number } })[];
  readonly bytes: number;
  readonly removed: readonly string[];
  readonly freedBytes: number;
}

/** Pins arrays of so many pages that nobody holds. */
async function leave(hub: Hub, pages: Readonly<Record<string, number>>): Promise<void> {
  for (const [name, count] of Object.entries(pages)) {
    const options = { dtype: "uint8", shape: [count * 4096], lifetime: "pinned" } as const;
    using array = await hub.create(name, options);
    await array.publish();
  }
  await eventually("all leases end", async () => {
    const left = (await hub.list()).filter(({ name, leases }) => name in pages && leases > 0);
    return left.length === 0 ? true : undefined;
  });
}

async function namesIn(hub: Hub): Promise<string[]> {
  return (await hub.list()).map(({ name }) => name);
}

describe("cuda-ipc gc", () => {
  it("says that no hub runs, and starts none", async () => {
    await using rig = await CliRig.open();
    const expected = `Nothing to remove: no hub runs at ${rig.socket}.\n`;
    assert.equal(await rig.ok("gc", "--dry-run"), expected);
    assert.equal(await rig.ok("gc", "--yes"), expected);
    assert.deepEqual((await rig.json<Collected>("gc", "--dry-run")).objects, []);
    assert.match(await rig.statusWithoutHub(), /^No hub runs at /);
  });

  it("lists with --dry-run what nobody holds, the largest first, and removes nothing", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    await leave(hub, { small: 1, large: 8, opened: 64 });
    using _opened = await hub.open("opened");
    using _held = await hub.create("held", { dtype: "int8", shape: [1] });
    const lines = (await rig.ok("gc", "--dry-run")).trimEnd().split("\n");
    assert.match(lines[0] ?? "", /^NAME +WHAT +FREES +DEVICE +USER +UNUSED FOR$/);
    assert.match(lines[1] ?? "", /^large +uint8\[32768\] +32 KiB +host +\S.* +\d+ s$/);
    assert.match(lines[2] ?? "", /^small +uint8\[4096\] +4 KiB +host /);
    assert.deepEqual(lines.slice(3), ["2 objects that nobody holds: removal frees 36 KiB."]);
    const told = await rig.json<Collected>("gc", "--dry-run");
    assert.deepEqual(
      told.objects.map(({ name, removal }) => [name, removal.bytes]),
      [
        ["large", 32_768],
        ["small", 4096],
      ],
    );
    assert.deepEqual([told.bytes, told.removed, told.freedBytes], [36_864, [], 0]);
    assert.deepEqual(await namesIn(hub), ["held", "large", "opened", "small"]);
  });

  it("removes with --yes what nobody has held for so long", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    await leave(hub, { a: 1, b: 2 });
    assert.equal(await rig.ok("gc", "--older-than", "1h", "--yes"), "Nothing to remove.\n");
    assert.equal(await rig.ok("gc", "--yes"), 'Removed "b".\nRemoved "a".\nFreed 12 KiB.\n');
    await leave(hub, { c: 1 });
    const { removed, freedBytes } = await rig.json<Collected>("gc", "--yes");
    assert.deepEqual([removed, freedBytes, await namesIn(hub)], [["c"], 4096, []]);
  });

  it("refuses without a terminal unless it is told not to ask", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    await leave(hub, { a: 1 });
    assert.match(await rig.fails("USAGE", "gc"), /no terminal to ask at: add --yes/);
    assert.match(await rig.fails("USAGE", "gc", "--json"), /--json does not ask: add --yes/);
    assert.match(await rig.fails("USAGE", "gc", "--yes", "--older-than", "1"), /Give a time/);
    assert.deepEqual(await namesIn(hub), ["a"]);
  });

  it("counts the time anew after a restart of the hub, so that nothing is removed too early", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    await leave(hub, { a: 1 });
    const since = async () => (await hub.list())[0]?.unheldSinceMs ?? 0;
    const before = await since();
    const restartedAtMs = Date.now();
    await hub.restart();
    assert.ok(before > 0 && before <= restartedAtMs);
    assert.ok((await since()) >= restartedAtMs);
  });

  it("counts no memory of timelines, which share it", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    using _steps = await hub.createTimeline("steps");
    type Told = { removal: { bytes: number; keptBy?: string } };
    assert.deepEqual((await rig.json<Told>("inspect", "steps")).removal, {
      bytes: 0,
      leases: 1,
      keptBy: "timelines",
    });
  });
});

describe("cuda-ipc gc in a terminal", { skip: skipTerminal }, () => {
  for (const [key, pressed, expected, left] of [
    ["Return", "\n", /Removed nothing\.\nended 0$/m, ["a"]],
    ["Ctrl-C", "\u0003", /Interrupted\.\nended 130$/m, ["a"]],
    ["Ctrl-D", "\u0004", /Removed nothing\.\nended 0$/m, ["a"]],
    ["no", "no\n", /Removed nothing\.\nended 0$/m, ["a"]],
    ["y", "y\n", /Removed "a"\.\nFreed 4 KiB\.\nended 0$/m, []],
  ] as const) {
    it(`asks, and ${left.length === 0 ? "removes" : "removes nothing"} after ${key}`, async () => {
      await using rig = await TerminalRig.open();
      await using hub = await rig.cli.join();
      await leave(hub, { a: 1 });
      rig.start("gc");
      await rig.shows(/^Remove 1 object\? \[y\/N\]/m);
      rig.press(pressed);
      assert.match(await rig.shows(/^ended \d+$/m), expected);
      assert.deepEqual(await namesIn(hub), left);
    });
  }

  it("keeps what was used while it asked", async () => {
    await using rig = await TerminalRig.open();
    await using hub = await rig.cli.join();
    await leave(hub, { a: 1, b: 1 });
    rig.start("gc");
    await rig.shows(/^Remove 2 objects\? \[y\/N\]/m);
    using _used = await hub.open("a");
    rig.press("y\n");
    const text = await rig.shows(/^ended \d+$/m);
    assert.match(text, /error\[IN_USE\]: Cannot remove "a": it was used since it was listed\./);
    assert.match(text, /Freed 4 KiB\.\nended 1$/m);
    assert.deepEqual(await namesIn(hub), ["a"]);
  });
});
