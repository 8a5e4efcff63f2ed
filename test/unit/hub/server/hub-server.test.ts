import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { limits } from "../../../../src/base/limits.js";
import { noLog } from "../../../../src/base/log-events.js";
import { interceptLibc } from "../../../../src/ffi/intercept-libc.js";
import { Journal } from "../../../../src/hub/restart/journal.js";
import { HubServer } from "../../../../src/hub/server/hub-server.js";
import { ownIdentity } from "../../../../src/os/process-identity.js";
import { SeqpacketSocket } from "../../../../src/os/seqpacket.js";
import { Actor } from "../../../support/actor.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { TestFolder } from "../../../support/test-folder.js";
import { soon, until } from "../../../support/until.js";
import { lease, object, session } from "../restart/journal-rig.js";

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

  it("stops at once although the close of what a waiting client has sent waits", async () => {
    using folder = new TestFolder();
    await using actor = new Actor(STOPS, { args: [folder.socket] });
    assert.equal(await actor.says(), "stopped");
  });

  it("ends as idle after it has released everything of a process that ended before it", async () => {
    using folder = new TestFolder();
    leftBehind(`${folder.socket}.journal`, 1000);
    const hub = HubServer.start({ socket: folder.socket, idleMs: 10 });
    try {
      await soon("it ends", hub.ended);
    } finally {
      hub.stop();
    }
  });
});

const STOPS = new URL("./actors/stops-with-backlog.js", import.meta.url);

/** Writes the journal of a hub whose client had so many objects and has ended as well. */
function leftBehind(path: string, objects: number): void {
  const { bootId, pidNamespace } = ownIdentity();
  const journal = Journal.open(path, bootId, noLog).journal;
  // No process has this number: it is over the limit of the kernel.
  const pid = 2 ** 22 + 1;
  journal.append([{ ...session, pid, pidNamespace, pidfdInode: "1", startTicks: null }]);
  for (let count = 0; count < objects; count += 1) {
    const id = 10 + 2 * count;
    journal.append([
      { ...object, id, name: `frame-${count}` },
      { ...lease, id: id + 1, object: id },
    ]);
  }
  journal.close();
}
