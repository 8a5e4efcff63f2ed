/**
 * Hubs that end while their clients are in other containers, whose pids the hub cannot see. The
 * tests check which clients return, and with which leases.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { defaults } from "../../../src/base/limits.js";
import { SeqpacketSocket } from "../../../src/os/seqpacket.js";
import { Actor } from "../../support/actor.js";
import { inContainer, skipWithoutContainers } from "../../support/container.js";
import { checkLeaks } from "../../support/leak-check.js";
import { killHub, TestFolder } from "../../support/test-folder.js";
import { TestHub } from "../../support/test-hub.js";
import { soon, until } from "../../support/until.js";

const HOLDS = new URL("./actors/holds-array.js", import.meta.url);
const STARTS = { start: true, hubIdleMs: 60_000 };

function holder(hub: TestHub, name: string, lifetime = "held"): Actor {
  return new Actor(HOLDS, {
    args: [hub.socket, name, lifetime],
    within: inContainer(hub.folder.path),
  });
}

function hubInContainer(folder = new TestFolder()): Promise<TestHub> {
  return TestHub.start({ folder, within: (path) => inContainer(path) });
}

describe("a hub that is killed, with clients in containers", {
  skip: skipWithoutContainers,
}, () => {
  checkLeaks();

  it("is followed by one in a third container, and unseen clients keep their leases", async () => {
    await using hub = await hubInContainer();
    await using first = holder(hub, "first");
    await using second = holder(hub, "second");
    assert.equal(((await first.says()) as { pid: number }).pid, 1);
    assert.equal(((await second.says()) as { pid: number }).pid, 1);
    hub.kill("SIGKILL");
    await hub.exited();
    for (const actor of [first, second]) assert.deepEqual(await actor.says(), { resumed: true });
    await using reader = await hub.connect();
    for (const name of ["first", "second"]) {
      using array = (await reader.open(name)).expectDType("float32");
      assert.equal((await array.read())[255], 355);
    }
    first.kill("SIGKILL");
    await first.exited();
  });

  it("is followed by one on the host, to which unseen clients return", async () => {
    await using hub = await hubInContainer();
    await using inside = holder(hub, "inside");
    await inside.says();
    await using onHost = await hub.connect(STARTS);
    using array = await onHost.create("on-host", { dtype: "int32", shape: [3] });
    const back = soon(
      "the client on the host comes back",
      new Promise((resolve) => onHost.onReconnect(resolve)),
    );
    hub.kill("SIGKILL");
    assert.deepEqual([await back, await inside.says()], [{ resumed: true }, { resumed: true }]);
    await array.publish();
    assert.deepEqual(
      (await onHost.list()).map(({ name }) => name),
      ["inside", "on-host"],
    );
  });

  it("on the host is followed by one in a container, where its pids name others", async () => {
    await using hub = await TestHub.start();
    await using onHost = await hub.connect();
    using array = await onHost.create("on-host", { dtype: "int32", shape: [3] });
    await using inside = holder(hub, "inside");
    await inside.says();
    const back = soon(
      "the client on the host comes back",
      new Promise((resolve) => onHost.onReconnect(resolve)),
    );
    await killHub(hub.folder.path);
    assert.deepEqual([await back, await inside.says()], [{ resumed: true }, { resumed: true }]);
    await array.publish();
    assert.deepEqual(
      (await onHost.list()).map(({ name }) => name),
      ["inside", "on-host"],
    );
  });

  it("in a container is followed there by one that knows which clients died with it", async () => {
    await using hub = await TestHub.start({
      folder: new TestFolder(),
      within: (path) => [
        ...inContainer(path),
        "sh",
        "-c",
        '"$@" & while :; do wait; sleep 1; done',
        "sh",
      ],
    });
    await using lives = holder(hub, "lives");
    await using dies = holder(hub, "dies");
    await Promise.all([lives.says(), dies.says()]);
    const pid = pidAt(hub.socket);
    process.kill(pid, "SIGSTOP");
    dies.kill("SIGKILL");
    await dies.exited();
    // WHY: a hub that does not know waits at least this long, counted from a later moment.
    const waitsUntilMs = performance.now() + defaults.unseenClientMs;
    process.kill(pid, "SIGKILL");
    assert.deepEqual(await lives.says(), { resumed: true });
    await using reader = await hub.connect();
    await until("what the dead one held is gone", async () => {
      assert.ok(
        performance.now() < waitsUntilMs,
        "the hub has waited for the dead one to come back",
      );
      return (await reader.list()).map(({ name }) => name).join() === "lives";
    });
  });
});

/** The hub's pid as the host sees it. */
function pidAt(socketPath: string): number {
  const socket = SeqpacketSocket.connect(socketPath);
  try {
    return socket.peerCredentials().pid;
  } finally {
    socket.close();
  }
}
