/** Another user's objects that claim to be copies of another machine's. Needs root. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Deadline } from "../../../src/base/deadline.js";
import { pullName } from "../../../src/client/connection/bridge-call.js";
import { createMemoryFile } from "../../../src/os/memory-file.js";
import type { ReplicaOf } from "../../../src/wire/descriptor.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import type { TestMachineOptions } from "../../support/machines/test-machine.js";
import { TwoMachines } from "../../support/machines/two-machines.js";
import { hostArray } from "../../support/messages.js";
import { asOtherUser, OTHER_UID, skipUnlessRoot } from "../../support/other-user.js";
import { RawClient } from "../../support/raw-client.js";
import { until } from "../../support/until.js";

const SEVERAL_USERS: TestMachineOptions = {
  hub: { config: { users: "all" }, user: { uid: 0, gid: 0 } },
};
const SHARED = { with: "all", access: "read" } as const;

describe("an object of another user that claims to be a copy", {
  skip: skipWithoutEngines || skipUnlessRoot,
}, () => {
  it("is no copy for the bridge, which neither replaces it nor gives it out as one", async () => {
    await using site = await TwoMachines.start(undefined, SEVERAL_USERS);
    const { one, other, hubOfOne, hubOfOther } = site;
    const stranger = await asOtherUser(() => RawClient.connect(other.hub.socket));
    const claim = async (name: string, replicaOf: ReplicaOf) => {
      using memory = createMemoryFile(name, hostArray.allocationByteLength);
      const descriptor = { ...hostArray, replicaOf };
      const fields = { name, lifetime: "held", sharing: SHARED, descriptor };
      const { result } = await stranger.ask({ op: "create", ...fields }, [memory]);
      assert.ok((await stranger.ask({ op: "publish", object: result?.object })).ok);
      return result?.object;
    };
    const pull = (name: string) => {
      const deadline = new Deadline("pull", {}, 20_000);
      return pullName(other.hub.socket, name, { deadline, isLimited: true, wait: false });
    };

    using latest = await hubOfOne.put("latest", Uint8Array.of(1, 2, 3));
    using changed = await hubOfOne.put("changed", Uint8Array.of(4, 5, 6));
    const claimed = {
      latest: await claim("latest", { machine: "one", object: latest.object }),
      changed: await claim("changed", { machine: "one", object: changed.object + 1000 }),
    };

    // A bridge compares its copies with their originals before it announces what is new.
    using _news = await hubOfOther.put("news", Uint8Array.of(7), { sharing: { machines: true } });
    await until("the bridge has seen the claims", async () =>
      (await one.status()).names.some(({ name }) => name === "news"),
    );
    assert.deepEqual((await other.status()).fetches, []);
    assert.doesNotMatch(other.log, /copied/);
    for (const [name, object] of Object.entries(claimed)) {
      const words = new RegExp(`"${name}": the array of user ${OTHER_UID} .* own user 0`);
      await assert.rejects(pull(name), { code: "NAME_TAKEN", message: words });
      const found = (await hubOfOther.inspect(name)).object;
      assert.deepEqual([found.object, found.ownerUid], [object, OTHER_UID]);
    }
    assert.doesNotMatch(other.log, /copied/);

    for (const [name, values] of [
      ["latest", [1, 2, 3]],
      ["changed", [4, 5, 6]],
    ] as const) {
      await hubOfOther.remove(name);
      assert.equal((await pull(name)).machine, "one");
      using copy = await hubOfOther.open(name, { dtype: "uint8" });
      assert.deepEqual([...(await copy.read())], values);
    }
    stranger.socket.close();
  });
});
