import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../src/base/errors.js";
import { SeqpacketSocket } from "../../../src/os/seqpacket.js";
import { type PeerClient, PeerListener } from "../../../src/peer/peer-listener.js";
import { TestFolder } from "../../support/test-folder.js";
import { until } from "../../support/until.js";

const closing = new CudaIpcError("CLOSED", "Cannot serve: it ends");

describe("PeerListener", () => {
  it("forgets a client that its service refuses, even one that reads nothing", async () => {
    using folder = new TestFolder();
    const served: PeerClient[] = [];
    const ended: PeerClient[] = [];
    const listener = PeerListener.listen(folder.file("peer"), {
      referenced: true,
      onClient: (client) => served.push(client),
      onRequest: () => {},
      onEnd: (client) => ended.push(client),
    });
    const socket = SeqpacketSocket.connect(listener.path);
    try {
      await until("it is served", () => served.length === 1);
      const [client] = served as [PeerClient];
      assert.throws(
        () => {
          for (;;) client.send({ v: 1, op: "next" });
        },
        { code: "LIMIT_EXCEEDED" },
      );
      client.refuse(new CudaIpcError("NOT_FOUND", "Cannot fetch: there is none"));
      assert.deepEqual([client.open, listener.clientCount, ended], [false, 0, [client]]);
    } finally {
      socket.close();
      listener.close(closing);
    }
  });

  it("tells no service of the ends of its own clients when it closes", async () => {
    using folder = new TestFolder();
    const served: PeerClient[] = [];
    const listener = PeerListener.listen(folder.file("peer"), {
      referenced: true,
      onClient: (client) => served.push(client),
      onRequest: () => {},
      onEnd: () => assert.fail("it knows"),
    });
    const socket = SeqpacketSocket.connect(listener.path);
    try {
      await until("it is served", () => served.length === 1);
      listener.close(closing);
      assert.equal(listener.clientCount, 0);
      let told = "";
      await until("the client is told", () => {
        const packet = socket.tryReceive();
        if (packet !== undefined && packet !== "end") told += Buffer.from(packet.bytes);
        return /it ends/.test(told);
      });
    } finally {
      socket.close();
      listener.close(closing);
    }
  });
});
