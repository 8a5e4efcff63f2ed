import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { limits } from "../../../../src/base/limits.js";
import { interceptLibc } from "../../../../src/ffi/intercept-libc.js";
import { HubServer } from "../../../../src/hub/server/hub-server.js";
import { SeqpacketSocket } from "../../../../src/os/seqpacket.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { TestFolder } from "../../../support/test-folder.js";
import { until } from "../../../support/until.js";

const CLIENTS = 4 * limits.hubAcceptsPerTurn;

describe("HubServer", () => {
  checkLeaks();

  it("lets the event loop go on while clients connect faster than it accepts them", async () => {
    using folder = new TestFolder();
    const hub = HubServer.start({ socket: folder.socket });
    const clients: SeqpacketSocket[] = [];
    const come = () => clients.push(SeqpacketSocket.connect(folder.socket));
    let inTurn = 0;
    let inTurnMost = 0;
    const undo = interceptLibc((call) => {
      if (call !== "accept4") return undefined;
      inTurn += 1;
      inTurnMost = Math.max(inTurnMost, inTurn);
      if (clients.length < CLIENTS) come();
      return undefined;
    });
    try {
      come();
      const endTurn = () => {
        inTurn = 0;
        if (clients.length < CLIENTS) setImmediate(endTurn);
      };
      endTurn();
      await until("all have come", () => clients.length === CLIENTS);
    } finally {
      undo();
      for (const client of clients) client.close();
      hub.stop();
    }
    assert.ok(inTurnMost <= 2 * limits.hubAcceptsPerTurn, String(inTurnMost));
  });
});
