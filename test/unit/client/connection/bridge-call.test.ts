/** Calls of the bridge, with a stand-in that answers wrong. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Deadline } from "../../../../src/base/deadline.js";
import { CudaIpcError } from "../../../../src/base/errors.js";
import {
  askBridge,
  askForWorker,
  pullName,
} from "../../../../src/client/connection/bridge-call.js";
import { createMemoryFile } from "../../../../src/os/memory-file.js";
import { PeerListener } from "../../../../src/peer/peer-listener.js";
import { bridgeSocketPath } from "../../../../src/wire/bridge-messages.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { TestFolder } from "../../../support/test-folder.js";

describe("a call of the bridge", () => {
  checkLeaks();

  it("closes descriptors that come with the answer", async () => {
    using folder = new TestFolder();
    using memory = createMemoryFile("test", 4096);
    const bridge = PeerListener.listen(bridgeSocketPath(folder.socket), {
      referenced: false,
      onRequest: (client) =>
        client.send({ v: 1, ok: false, error: { code: "NOT_FOUND", message: "none" } }, [memory]),
    });
    try {
      const deadline = new Deadline("ask", {}, 20_000);
      const none = { code: "NOT_FOUND" };
      const pull = { deadline, isLimited: true, wait: false };
      await assert.rejects(pullName(folder.socket, "frame", pull), none);
      await assert.rejects(askForWorker(folder.socket, "double", [], deadline), none);
      await assert.rejects(askBridge(folder.socket, deadline), none);
    } finally {
      bridge.close(new CudaIpcError("CLOSED", "the test is over"));
    }
  });
});
