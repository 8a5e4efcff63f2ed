/** Permissions of several users on one hub. Needs root, to act as those users. */
import assert from "node:assert/strict";
import { chmodSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { connect } from "../../../src/client/connect.js";
import { checkLeaks } from "../../support/leak-check.js";
import { skipUnlessRoot } from "../../support/other-user.js";
import { TestHub } from "../../support/test-hub.js";
import {
  ALICE,
  assertDenied,
  assertDone,
  BOB,
  CAROL,
  forAll,
  HUB,
  type Outcome,
  outcome,
  tenant,
  tryAs,
} from "./tenant-rig.js";

for (const owner of [HUB, { uid: 0, gid: 0 }]) {
  describe(`objects on a hub of user ${owner.uid}`, { skip: skipUnlessRoot }, () => {
    checkLeaks();

    const startHub = () => TestHub.start({ user: owner, config: { users: "all" } });

    it("are private: other users cannot open, list, inspect or remove them", async () => {
      await using hub = await startHub();
      await using alice = await tenant(hub, ALICE, ["create", "x"], ["read", "x"]);
      await assertDone(alice);
      await assertDone(alice, 7);
      for (const user of [BOB, CAROL]) {
        const words = /belongs to user 12341, is not shared, and user 1234[23] asked\. .+`sharing`/;
        assertDenied(await tryAs(hub, user, "read", "x"), words);
        assertDenied(await tryAs(hub, user, "inspect", "x"), words);
        assertDenied(
          await tryAs(hub, user, "remove", "x"),
          /^Cannot remove "x": it belongs to user 12341/,
        );
        assert.deepEqual(await tryAs(hub, user, "list"), { value: [] });
      }
      assert.deepEqual(await tryAs(hub, ALICE, "read", "x"), { value: 7 });
    });

    it("can be shared with a group for reading", async () => {
      await using hub = await startHub();
      await using alice = await tenant(hub, ALICE, ["create", "x", { with: "group" }]);
      await assertDone(alice);
      assert.deepEqual(await tryAs(hub, CAROL, "read", "x"), { value: 7 });
      assertDenied(
        await tryAs(hub, CAROL, "write", "x"),
        /for writing: .+ shared with group 12350 \(read\)/,
      );
      assertDenied(await tryAs(hub, BOB, "read", "x"), /shared with group 12350/);
    });

    it("can be shared with all for reading, which the kernel enforces", async () => {
      await using hub = await startHub();
      const sharing = { with: "all", access: "read" };
      await using alice = await tenant(
        hub,
        ALICE,
        ["create", "x", sharing],
        ["wait"],
        ["read", "x"],
      );
      await assertDone(alice);
      assert.deepEqual(await tryAs(hub, BOB, "list"), {
        value: [{ name: "x", ownerUid: ALICE.uid, sharing }],
      });
      assert.deepEqual(await tryAs(hub, BOB, "read", "x"), { value: 7 });
      assertDenied(
        await tryAs(hub, BOB, "write", "x"),
        /for writing: .+ shared with all users \(read\)/,
      );
      const pried = await tryAs(hub, BOB, "pry", "x");
      assert.deepEqual(pried, {
        value: { reopen: "EACCES", map: "PERMISSION_DENIED", write: "EBADF", read: "done" },
      });
      assertDenied(await tryAs(hub, BOB, "remove", "x"), /Only its owner and root may do it\.$/);
      alice.goOn();
      await assertDone(alice);
      await assertDone(alice, 7);
    });

    it("can be shared with all for writing", async () => {
      await using hub = await startHub();
      await using alice = await tenant(
        hub,
        ALICE,
        ["create", "x", forAll("read-write")],
        ["wait"],
        ["read", "x"],
      );
      await assertDone(alice);
      assert.deepEqual(await tryAs(hub, BOB, "write", "x"), { value: null });
      assertDenied(await tryAs(hub, BOB, "remove", "x"), /^Cannot remove "x"/);
      alice.goOn();
      await assertDone(alice);
      await assertDone(alice, 9);
    });

    it("that are timelines can be shared", async () => {
      await using hub = await startHub();
      await using alice = await tenant(
        hub,
        ALICE,
        ["createTimeline", "t", { with: "all" }],
        ["createTimeline", "u"],
      );
      await assertDone(alice);
      await assertDone(alice);
      assert.deepEqual(await tryAs(hub, BOB, "openTimeline", "t"), { value: "5" });
      assertDenied(await tryAs(hub, BOB, "openTimeline", "u"), /is not shared/);
    });
  });
}

describe("a hub for several users", { skip: skipUnlessRoot }, () => {
  checkLeaks();

  it("is stopped and restarted only by its own user and root", async () => {
    await using hub = await TestHub.start({ user: HUB, config: { users: [ALICE.uid] } });
    for (const step of ["stop", "restart"]) {
      assertDenied(
        await tryAs(hub, ALICE, step),
        /hub: it belongs to user 12340, and user 12341 asked\. Only its owner and root/,
      );
    }
    assert.deepEqual(await tryAs(hub, HUB, "stop"), { value: null });
    await hub.exited();
  });

  it("refuses unlisted users at once", async () => {
    await using hub = await TestHub.start({
      user: HUB,
      config: { users: [ALICE.uid], groups: [CAROL.gid] },
    });
    assert.deepEqual(await tryAs(hub, CAROL, "list"), { value: [] });
    await assert.rejects(
      hub.connect({ hubUid: HUB.uid }),
      (error) =>
        hasCode(error, "UNTRUSTED_PEER") &&
        /^Cannot serve user 0: this hub belongs to user 12340/.test(error.message),
    );
  });

  it("shows each user its own usage, and all usage to its own user and root", async () => {
    const limits = {
      user: { objects: 5, hostBytes: "1MiB" },
      client: { messagesPerSecond: 10_000 },
    };
    await using hub = await TestHub.start({ user: HUB, config: { users: "all", limits } });
    await using alice = await tenant(hub, ALICE, ["create", "x"], ["users"], ["limits"]);
    await assertDone(alice);
    const used = {
      uid: ALICE.uid,
      clients: 1,
      objects: 1,
      leases: 1,
      waitingOpens: 0,
      hostBytes: 4096,
      deviceBytes: 0,
    };
    await assertDone(alice, [used]);
    const { value } = await outcome(alice);
    const ofUser = (value as { of: string; resource: string }[]).filter(({ of }) => of === "user");
    const limitOf = (resource: string) => ofUser.find((limit) => limit.resource === resource);
    assert.deepEqual(limitOf("objects"), { of: "user", resource: "objects", limit: 5, used: 1 });
    assert.deepEqual(limitOf("hostBytes"), {
      of: "user",
      resource: "hostBytes",
      limit: 2 ** 20,
      used: 4096,
    });
    assert.deepEqual(limitOf("leases"), { of: "user", resource: "leases", limit: 50_000, used: 1 });
    assert.equal((value as { resource: string; used: unknown }[]).at(-1)?.used, null);
    const own = ({ value: users }: Outcome) => (users as { uid: number }[]).map(({ uid }) => uid);
    assert.deepEqual(own(await tryAs(hub, BOB, "users")), [BOB.uid]);
    assert.deepEqual(own(await tryAs(hub, HUB, "users")), [ALICE.uid, HUB.uid]);
    assert.deepEqual(own(await tryAs(hub, { uid: 0, gid: 0 }, "users")), [ALICE.uid, 0]);
  });
});

describe("a client of a hub for several users", { skip: skipUnlessRoot }, () => {
  checkLeaks();

  it("trusts hubs of root, of its own user, and of CUDA_IPC_HUB_UID", async () => {
    await using hub = await TestHub.start({ user: HUB, config: { users: "all" } });
    await using rooted = await TestHub.start({
      user: { uid: 0, gid: 0 },
      config: { users: "all" },
    });
    assert.deepEqual(await tryAs(rooted, ALICE, "list"), { value: [] });
    await assert.rejects(hub.connect(), (error) => hasCode(error, "UNSAFE_RUNTIME_DIR"));
    await using own = await hub.connect({ hubUid: HUB.uid });
    assert.equal((await own.status()).pid, hub.pid);
    await using byEnvironment = await tenant(hub, ALICE, ["list"]);
    await assertDone(byEnvironment, []);
  });

  it("does not start a hub in the folder of another user", async () => {
    const hub = await TestHub.start({ user: HUB, config: { users: "all" } });
    await using _ = hub;
    hub.kill("SIGTERM");
    await hub.exited();
    await assert.rejects(
      connect({ socket: hub.socket, hubUid: HUB.uid }),
      (error) =>
        hasCode(error, "HUB_UNAVAILABLE") && /user 12340 owns the folder/.test(error.message),
    );
  });

  it("refuses a folder that users other than the hub's can write to", async () => {
    await using hub = await TestHub.start({ user: HUB, config: { users: "all" } });
    for (const mode of [0o775, 0o757]) {
      chmodSync(hub.folder.path, mode);
      await assert.rejects(hub.connect({ hubUid: HUB.uid }), (error) =>
        hasCode(error, "UNSAFE_RUNTIME_DIR"),
      );
    }
    chmodSync(hub.folder.path, 0o755);
  });
});
