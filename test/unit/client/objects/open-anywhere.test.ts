/** Opens from any machine, with stand-ins for the hub and the bridge. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../../src/base/errors.js";
import { connect } from "../../../../src/client/connect.js";
import { PeerListener } from "../../../../src/peer/peer-listener.js";
import { bridgeSocketPath } from "../../../../src/wire/bridge-messages.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { obliging, type Script, ScriptedHub } from "../../../support/scripted-hub.js";
import { TestFolder } from "../../../support/test-folder.js";

describe("an open from any machine that does not wait", () => {
  checkLeaks();

  it("keeps one limit for the fetch and the open after it", async () => {
    using folder = new TestFolder();
    let opens = 0;
    const open: Script = () => {
      opens += 1;
      return opens === 1 ? { code: "NOT_FOUND" } : undefined;
    };
    using _ = new ScriptedHub(folder.socket, obliging({ open }));
    const done = { v: 1, ok: true, state: "done", machine: "a", byteLength: 4 } as const;
    const bridge = PeerListener.listen(bridgeSocketPath(folder.socket), {
      referenced: false,
      onRequest: (client) => void setTimeout(() => client.send(done), 100),
    });
    await using hub = await connect({ socket: folder.socket, start: false, device: "host" });
    try {
      await assert.rejects(hub.open("frame", { from: "any", wait: false, timeoutMs: 1000 }), {
        code: "TIMEOUT",
        message: /^Cannot open "frame" from any machine: not done within 1000 ms/,
      });
      assert.equal(opens, 2);
    } finally {
      bridge.close(new CudaIpcError("CLOSED", "the test is over"));
    }
  });
});
