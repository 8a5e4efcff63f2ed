/** Processes of different users do not serve each other. Needs root, to act as another user. */
import assert from "node:assert/strict";
import { chmodSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { connect } from "../../../src/client/connect.js";
import { SeqpacketSocket } from "../../../src/os/seqpacket.js";
import { SeqpacketListener } from "../../../src/os/seqpacket-listener.js";
import { checkLeaks } from "../../support/leak-check.js";
import { asOtherUser, skipUnlessRoot } from "../../support/other-user.js";
import { TestFolder } from "../../support/test-folder.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";

describe("a process of another user", { skip: skipUnlessRoot }, () => {
  checkLeaks();

  it("is refused by the hub even if the folder lets it in", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const fds = testHub.fdCount();
    chmodSync(testHub.folder.path, 0o711);
    chmodSync(testHub.socket, 0o666);
    const socket = asOtherUser(() => SeqpacketSocket.connect(testHub.socket));
    chmodSync(testHub.folder.path, 0o700);
    const received: string[] = [];
    await until("the hub hangs up", () => {
      const packet = socket.tryReceive();
      if (packet !== undefined && packet !== "end")
        received.push(Buffer.from(packet.bytes).toString());
      return packet === "end";
    });
    socket.close();
    assert.deepEqual(
      received.map((text) => JSON.parse(text).error.code),
      ["UNTRUSTED_PEER"],
    );
    assert.equal((await hub.status()).clients, 1);
    await until("the hub has closed its socket", () => testHub.fdCount() === fds);
  });

  it("is not trusted as the hub", async () => {
    using folder = new TestFolder();
    chmodSync(folder.path, 0o777);
    const listener = asOtherUser(() => SeqpacketListener.listen(folder.socket));
    chmodSync(folder.path, 0o700);
    await assert.rejects(connect({ socket: folder.socket, start: false }), (error) =>
      hasCode(error, "UNTRUSTED_PEER"),
    );
    listener.close();
  });
});
