/** The bridge of a hub for several users, which runs as a user of its own. */
import assert from "node:assert/strict";
import { chmodSync, chownSync, existsSync, mkdirSync } from "node:fs";
import { describe, it } from "node:test";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { TestMachine, type TestMachineOptions } from "../../support/machines/test-machine.js";
import { TestNats } from "../../support/machines/test-nats.js";
import { TestFolder } from "../../support/test-folder.js";

const USER = 12_350;
const isSkipped = skipWithoutEngines || (process.getuid?.() === 0 ? false : "needs root");
const SHARED = { sharing: { with: "all", machines: true } } as const;

describe("a bridge of a user of its own", { skip: isSkipped }, () => {
  it("listens at CUDA_IPC_BRIDGE_SOCKET, announces and copies what is shared with all", async () => {
    await using nats = await TestNats.start();
    using folders = new TestFolder();
    chmodSync(folders.path, 0o755);
    const options = (name: string): TestMachineOptions => {
      const folder = folders.file(name);
      mkdirSync(folder, { mode: 0o700 });
      chownSync(folder, USER, USER);
      return {
        hub: { config: { users: "all" }, user: { uid: 0, gid: 0 } },
        env: { CUDA_IPC_BRIDGE_SOCKET: `${folder}/bridge.sock`, HOME: folder },
        within: ["setpriv", `--reuid=${USER}`, `--regid=${USER}`, "--clear-groups"],
        networkInterface: "lo",
        args: ["--pull", "*"],
      };
    };
    await using one = await TestMachine.start("one", nats, options("one"));
    await using other = await TestMachine.start("other", nats, options("other"));
    await using hubOfOne = await one.connect();
    await using hubOfOther = await other.connect();
    using _private = await hubOfOne.put("private", Uint8Array.of(9), {
      sharing: { machines: true },
    });
    using _shared = await hubOfOne.put("shared", Uint8Array.of(1, 2), SHARED);
    using copy = await hubOfOther.open("shared", { dtype: "uint8" });
    assert.deepEqual([...(await copy.read())], [1, 2]);
    const [found] = await hubOfOther.list({ prefix: "shared" });
    assert.equal(found?.ownerUid, USER);
    assert.deepEqual(await hubOfOther.list({ prefix: "private" }), []);
    assert.ok(!one.log.includes('"private"'), one.log);
    assert.ok(existsSync(folders.file("one/bridge.sock")));
    // Its socket is for its own user.
    await assert.rejects(hubOfOne.open("nothing", { from: "any" }), { code: "BRIDGE_UNAVAILABLE" });
  });
});
