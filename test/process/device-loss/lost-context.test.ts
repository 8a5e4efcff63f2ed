/**
 * A process that waits in every possible way while its context on the GPU is lost. The libcuda in C
 * loses its context on command.
 */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { Actor } from "../../support/actor.js";
import { expectLibcudaInC, skipLibcudaInC } from "../../support/libcuda-in-c.js";
import { checkSurvivor, SURVIVOR } from "../../support/survivor.js";
import { TestHub } from "../../support/test-hub.js";

describe("a process whose context is lost, on a libcuda in C", { skip: skipLibcudaInC() }, () => {
  it("ends every wait with DEVICE_LOST, refuses later calls, and closes cleanly", async () => {
    await using testHub = await TestHub.start();
    await using owner = await testHub.connect();
    using _never = await owner.createTimeline("never", { device: "host" });
    const flag = testHub.folder.file("lost");
    const env = { LD_LIBRARY_PATH: expectLibcudaInC().folder };
    const args = [testHub.socket, "pinned", "1000", "7"];
    await using keeper = new Actor(new URL("../../gpu/actors/mps-keeper.js", import.meta.url), {
      args,
      env,
    });
    assert.equal(await keeper.exited(), 0, keeper.complaint);
    await using survivor = new Actor(SURVIVOR, {
      args: [testHub.socket],
      env: { ...env, LIBCUDA_IN_C_LOST: flag },
    });
    const told: string[] = [];
    await checkSurvivor(survivor, {
      lose: () => writeFileSync(flag, ""),
      tell: (line) => told.push(line),
    });
    assert.match(told.at(-1) ?? "", /: (\d+) before, \1 after$/);
    assert.deepEqual((await owner.list()).map(({ name }) => name).sort(), ["never", "pinned"]);
    await using checker = new Actor(new URL("../../gpu/actors/mps-checker.js", import.meta.url), {
      args: [testHub.socket, "pinned", "7"],
      env,
    });
    assert.deepEqual(await checker.says(), { wrong: -1, count: 1000 });
  });
});
