/** Who may be a worker of a service on a hub of several users. Needs root, to act as them. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ConnectServiceOptions } from "../../../src/service/service-options.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { skipUnlessRoot } from "../../support/other-user.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";
import { ALICE, BOB, CAROL, HUB } from "../hub/tenant-rig.js";
import { SERVICE, startWorker } from "./service-rig.js";

const ROOT = { uid: 0, gid: 0 };
const FOR_ALL = { with: "all" } as const;
const env = { CUDA_IPC_HUB_UID: String(HUB.uid) };

const startHub = () => TestHub.start({ user: HUB, config: { users: "all" } });

async function clientOf(
  hub: TestHub,
  user: typeof ALICE,
  options: ConnectServiceOptions,
): Promise<Actor> {
  const file = new URL("./actors/user-client.js", import.meta.url);
  const args = [hub.socket, SERVICE, JSON.stringify(options)];
  const client = new Actor(file, { args, user, env });
  assert.deepEqual(await client.says(), { ready: true });
  return client;
}

interface Answer {
  readonly pid?: number;
  readonly code?: string;
  readonly message?: string;
}

async function ask(client: Actor, timeoutMs = 25_000): Promise<Answer> {
  client.goOn(JSON.stringify({ op: "double", timeoutMs }));
  return (await client.says()) as Answer;
}

/** Whether a worker of this user may serve. It leaves at once. */
async function serveAs(hub: TestHub, user: typeof ALICE): Promise<Answer> {
  const file = new URL("./actors/user-worker.js", import.meta.url);
  await using worker = new Actor(file, { args: [hub.socket, SERVICE], user, env });
  return (await worker.says()) as Answer;
}

/** Repeats a request until its error matches, with twice the limit each time. */
async function untilRefused(client: Actor, words: RegExp): Promise<void> {
  let timeoutMs = 50;
  await until(`an error says ${words}`, async () => {
    timeoutMs *= 2;
    const { code, message = "" } = await ask(client, timeoutMs);
    assert.equal(code, "TIMEOUT", message);
    return words.test(message);
  });
}

describe("workers of a service on a hub of several users", { skip: skipUnlessRoot }, () => {
  checkLeaks();

  it("are those of the client's user, of root and of the hub's user", async () => {
    for (const user of [ALICE, ROOT, HUB]) {
      await using hub = await startHub();
      await using worker = await startWorker(hub.socket, SERVICE, { sharing: FOR_ALL }, user);
      await using client = await clientOf(hub, ALICE, { sharing: FOR_ALL });
      assert.equal((await ask(client)).pid, worker.pid);
    }
  });

  it("are of no other user, unless the client names the user", async () => {
    await using hub = await startHub();
    await using worker = await startWorker(hub.socket, SERVICE, { sharing: FOR_ALL }, BOB);
    await using client = await clientOf(hub, ALICE, { sharing: FOR_ALL });
    await untilRefused(client, /UNTRUSTED_PEER: .+it is of user 12342\. .+uid: 12342/);
    for (const uid of [BOB.uid, [HUB.uid, BOB.uid]]) {
      const options = { sharing: FOR_ALL, workers: { uid } };
      await using named = await clientOf(hub, ALICE, options);
      assert.equal((await ask(named)).pid, worker.pid);
    }
  });

  it("are of the users that the first worker named, whatever later ones name", async () => {
    await using hub = await startHub();
    const shared = { sharing: FOR_ALL };
    const byAlice = { ...shared, workers: { uid: BOB.uid } };
    await using first = await startWorker(hub.socket, SERVICE, byAlice, ALICE);
    const byBob = { ...shared, workers: { uid: [CAROL.uid] } };
    await using second = await startWorker(hub.socket, SERVICE, byBob, BOB);
    const { code, message = "" } = await serveAs(hub, CAROL);
    assert.equal(code, "PERMISSION_DENIED", message);
    assert.match(message, /belongs to user 12341, .+the users that it named \(12342\), root/);
    for (const [worker, user] of [[first, ALICE] as const, [second, BOB] as const]) {
      await using client = await clientOf(hub, CAROL, { ...shared, workers: { uid: user.uid } });
      assert.equal((await ask(client)).pid, worker.pid);
    }
    // Naming the users of a service makes no client take them.
    await using client = await clientOf(hub, ALICE, { ...shared, workersMax: 2 });
    for (let i = 0; i < 3; i += 1) assert.equal((await ask(client)).pid, first.pid);
  });

  it("are of one user, who has the name until the last worker is gone", async () => {
    await using hub = await startHub();
    const refusal = () => serveAs(hub, BOB);
    {
      await using _ = await startWorker(hub.socket, SERVICE, { sharing: FOR_ALL }, ALICE);
      const { code, message = "" } = await refusal();
      assert.equal(code, "PERMISSION_DENIED", message);
      assert.match(message, /service "double" belongs to user 12341, .+ and user 12342 asked/);
    }
    await until("the name is free", async () => (await refusal()).code === undefined);
  });
});
