/** A client's search for workers: what ends it, and which errors concern one worker alone. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { CudaIpcError } from "../../../src/base/errors.js";
import { PeerListener } from "../../../src/peer/peer-listener.js";
import { connectService } from "../../../src/service/service-client.js";
import { HubWatch } from "../../../src/watch/hub-watch.js";
import { bridgeSocketPath } from "../../../src/wire/bridge-messages.js";
import { checkLeaks } from "../../support/leak-check.js";
import { soon, until } from "../../support/until.js";
import { ask, asked, SERVICE, ServiceRig } from "./service-rig.js";

describe("a client that searches for workers", () => {
  let rig: ServiceRig;
  checkLeaks(async () => rig[Symbol.asyncDispose]());
  beforeEach(async () => {
    rig = await ServiceRig.start();
  });

  for (const code of ["HUB_GONE", "CLOSED", "DEVICE_LOST"] as const) {
    it(`goes on if the bridge refuses with ${code}`, async () => {
      let refusals = 0;
      const bridge = PeerListener.listen(bridgeSocketPath(rig.hub.socket), {
        referenced: false,
        onRequest: () => {
          refusals += 1;
          throw new CudaIpcError(code, "Cannot offer a worker: the bridge has a fault of its own");
        },
      });
      try {
        const client = await rig.client({ machine: "any" });
        const answer = ask(client, { id: 1 });
        answer.catch(() => {});
        await until("the bridge has refused", () => refusals > 0);
        const worker = await rig.worker();
        assert.equal((await answer).pid, worker.pid);
      } finally {
        bridge.close(new CudaIpcError("CLOSED", "the test is over"));
      }
    });
  }

  it("goes on if a hub that was started again has lost the link that it made", async (t) => {
    const worker = await rig.worker();
    const hub = await rig.connect();
    const create = hub.createChannel.bind(hub);
    let losses = 0;
    t.mock.method(hub, "createChannel", (async (...made) => {
      losses += 1;
      if (losses > 1) return create(...made);
      const found = "the hub lost it when it was started again";
      throw new CudaIpcError("HUB_GONE", `Cannot publish "${made[0]}": ${found}`);
    }) as typeof create);
    await using client = connectService(hub, SERVICE);
    assert.equal((await ask(client, { id: 1 })).pid, worker.pid);
  });

  it("says at once that the hub has disconnected it", async () => {
    await using hub = await rig.hub.connect({ program: "searching" });
    await using watch = new HubWatch({ socket: rig.hub.socket, program: "test" });
    await using client = connectService(hub, SERVICE);
    const waiting = soon("it is told", asked(client, { timeoutMs: 20_000 }));
    const told = assert.rejects(waiting, { code: "DISCONNECTED" });
    const { clients } = await watch.snapshot();
    const found = clients.find(({ program }) => program === "searching");
    await watch.disconnect(found?.session ?? 0);
    await told;
  });

  it("finds another worker for a request that was refused, although it may use only one", async () => {
    const client = await rig.client({ workersMax: 1 });
    const leaving = await rig.worker({ depth: 2 });
    const begun = asked(client, { op: "hold", id: 1 });
    assert.deepEqual(await leaving.says(), { began: 1 });
    const refused = ask(client, { id: 2 });
    await until("it waits", async () => (await rig.facts(leaving)).waiting === 1);
    const other = await rig.worker();
    leaving.goOn("close");
    assert.equal((await refused).pid, other.pid);
    leaving.goOn("release");
    (await begun).release();
  });
});
