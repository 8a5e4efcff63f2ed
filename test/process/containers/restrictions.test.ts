/** Containers that lack something that a process on the host has. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Actor } from "../../support/actor.js";
import { inContainer, skipWithoutContainers } from "../../support/container.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";

const CREATES = new URL("./actors/creates-all.js", import.meta.url);
const JOINS = new URL("./actors/joins.js", import.meta.url);
const SHARES = new URL("../peer/actors/shares-things.js", import.meta.url);
const OPENS = new URL("./actors/opens-all.js", import.meta.url);

const HARMLESS = {
  "a read-only root file system": "mount -o remount,bind,ro /",
  "no room in /dev/shm": "mount -t tmpfs -o ro,size=4k tmpfs /dev/shm",
  "noexec on everything that can be written": 'mount -o "remount,bind,noexec" "$0"',
  "other users' processes hidden in /proc": "mount -t proc -o hidepid=2 proc /proc",
};

describe("a container with restrictions", { skip: skipWithoutContainers }, () => {
  checkLeaks();

  for (const [what, restrict] of Object.entries(HARMLESS)) {
    it(`shares all kinds of objects with another one: ${what}`, async () => {
      await using hub = await TestHub.start();
      const options = {
        args: [hub.socket, "host"],
        within: inContainer(hub.folder.path, { restrict }),
      };
      await using creator = new Actor(CREATES, options);
      assert.equal(await creator.says(), "created", creator.complaint);
      await using opener = new Actor(OPENS, options);
      assert.deepEqual(((await opener.says()) as { pinned: number[] }).pinned, [1, 2, 3]);
    });
  }

  it("runs clients without /proc, and says what is missing for sharing without a hub", async () => {
    await using hub = await TestHub.start();
    const within = inContainer(hub.folder.path, { restrict: "mount -t tmpfs tmpfs /proc" });
    await using creator = new Actor(CREATES, { args: [hub.socket, "host"], within });
    assert.equal(await creator.says(), "created");
    await using opener = new Actor(OPENS, { args: [hub.socket, "host"], within });
    assert.deepEqual(((await opener.says()) as { pinned: number[] }).pinned, [1, 2, 3]);
    await using sharer = new Actor(SHARES, {
      args: ["[]"],
      within,
      env: { CUDA_IPC_SOCKET: hub.socket },
    });
    await assert.rejects(sharer.says(), /Cannot identify this process: \/proc cannot be read/);
    await using starter = new Actor(JOINS, { args: [hub.folder.file("other.sock")], within });
    const { code, message } = (await starter.says()) as { code: string; message: string };
    assert.match(`${code}: ${message}`, /^UNSUPPORTED: Cannot start a hub .*\/proc cannot be read/);
  });
});
