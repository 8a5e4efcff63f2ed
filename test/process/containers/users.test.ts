/**
 * Containers with user namespaces that do not map each other's users, and folders that are mounted
 * read-only.
 */
import assert from "node:assert/strict";
import { chmodSync } from "node:fs";
import { describe, it } from "node:test";
import { Actor } from "../../support/actor.js";
import { inContainer, skipWithoutContainers } from "../../support/container.js";
import { checkLeaks } from "../../support/leak-check.js";
import { skipUnlessRoot } from "../../support/other-user.js";
import { killHub, TestFolder } from "../../support/test-folder.js";
import { TestHub } from "../../support/test-hub.js";

const JOINS = new URL("./actors/joins.js", import.meta.url);
const OTHER = { uid: 12_345, gid: 12_345 };
const FOR_ALL = { users: "all" };

interface Joined {
  readonly code?: string;
  readonly message?: string;
  readonly resumed?: boolean;
}

function joiner(
  hub: TestHub,
  options: Partial<ConstructorParameters<typeof Actor>[1]> = {},
): Actor {
  return new Actor(JOINS, { args: [hub.socket], within: inContainer(hub.folder.path), ...options });
}

async function refusal(actor: Actor): Promise<string> {
  const { code, message } = (await actor.says()) as Joined;
  return `${code}: ${message}`;
}

describe("containers of other users", { skip: skipWithoutContainers || skipUnlessRoot }, () => {
  checkLeaks();

  it("trust the hub of an unmapped user only if CUDA_IPC_HUB_UID says so", async () => {
    await using hub = await TestHub.start({ config: FOR_ALL });
    chmodSync(hub.folder.path, 0o755);
    await using strict = joiner(hub, { user: OTHER });
    assert.match(
      await refusal(strict),
      /^UNSAFE_RUNTIME_DIR: .* it belongs to a user outside of this user namespace \(seen as 65534\)/,
    );
    await using told = joiner(hub, { user: OTHER, env: { CUDA_IPC_HUB_UID: "65534" } });
    assert.deepEqual(await told.says(), { joined: true });
  });

  it("are refused by a hub whose user namespace does not map them", async () => {
    await using hub = await TestHub.start({
      folder: new TestFolder(),
      config: FOR_ALL,
      within: (path) => inContainer(path),
    });
    chmodSync(hub.folder.path, 0o755);
    await using mapped = joiner(hub);
    assert.deepEqual(await mapped.says(), { joined: true });
    await using stranger = new Actor(JOINS, {
      args: [hub.socket],
      user: OTHER,
      env: { CUDA_IPC_HUB_UID: "0" },
    });
    assert.match(
      await refusal(stranger),
      /^UNTRUSTED_PEER: .*its user or group is not mapped in the hub's user namespace/,
    );
  });
});

describe("a folder that is mounted read-only", { skip: skipWithoutContainers }, () => {
  checkLeaks();

  it("admits clients, which return after a hub's crash but start no hub themselves", async () => {
    await using hub = await TestHub.start();
    await using client = joiner(hub, { within: inContainer(hub.folder.path, { readOnly: true }) });
    assert.deepEqual(await client.says(), { joined: true });
    await killHub(hub.folder.path);
    await using late = joiner(hub, { within: inContainer(hub.folder.path, { readOnly: true }) });
    assert.match(await refusal(late), /^HUB_UNAVAILABLE: .* its folder is read-only here/);
    const next = await TestHub.start({ folder: hub.folder });
    assert.deepEqual(await client.says(), { resumed: true });
    await using reader = await next.connect();
    assert.equal((await reader.list()).length, 1);
    await killHub(hub.folder.path);
    await next.exited();
  });

  it("works with the /proc of another PID namespace", async () => {
    await using hub = await TestHub.start();
    await using client = joiner(hub, {
      within: inContainer(hub.folder.path, { foreignProc: true }),
    });
    assert.deepEqual(await client.says(), { joined: true });
  });
});
