/** Replies that cannot be sent: which client pays for them, and when the hub hangs up. */
import assert from "node:assert/strict";
import { constants } from "node:os";
import { beforeEach, describe, it } from "node:test";
import { limits } from "../../../../src/base/limits.js";
import { interceptLibc } from "../../../../src/ffi/intercept-libc.js";
import { libc } from "../../../../src/ffi/libc.js";
import { ClientSocket } from "../../../../src/hub/connections/client-socket.js";
import { UnreadDescriptors } from "../../../../src/hub/connections/unread-descriptors.js";
import type { GateSink, UserGate } from "../../../../src/hub/gate/descriptor-gate.js";
import { unlimitedQuota } from "../../../../src/hub/limits/policy.js";
import { Account } from "../../../../src/hub/limits/quota.js";
import { createMemoryFile } from "../../../../src/os/memory-file.js";
import type { OwnedFd } from "../../../../src/os/owned-fd.js";
import { SeqpacketSocket } from "../../../../src/os/seqpacket.js";
import { systemError } from "../../../../src/os/system-error.js";
import type { Reply } from "../../../../src/wire/messages.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { until } from "../../../support/until.js";

const ETOOMANYREFS = 109;
/** More than closes free in one turn of the event loop. */
const LARGE = 17 * 2 ** 20;
const PADDING = "x".repeat(50_000);

const gate: UserGate = {
  receive: () => assert.fail("no descriptors are sent"),
  closeSocket: (socket) => socket.close(),
};

function reply(id: number, text = ""): Reply {
  return { v: 1, id, ok: true, result: { text } };
}

describe("ClientSocket", () => {
  checkLeaks(() => {
    client.close();
    peer.close();
    unread.close();
  });

  let unread: UnreadDescriptors;
  let account: Account;
  let peer: SeqpacketSocket;
  let client: ClientSocket;
  let ends: unknown[];

  function open(
    quota: { readonly unreadBytes?: number; readonly unreadDescriptors?: number } = {},
    ownGate = gate,
  ): void {
    const [own, other] = SeqpacketSocket.pair();
    peer = other;
    ends = [];
    account = new Account("client", "this client", { ...unlimitedQuota, ...quota });
    client = new ClientSocket(
      own,
      account,
      { unread, gate: ownGate },
      {
        onReady: () => {
          while (client.flush());
        },
        onPacket: () => {},
        onEnd: (reason) => ends.push(reason),
      },
    );
  }

  function send(one: Reply, fds: Parameters<ClientSocket["send"]>[1] = []): void {
    client.send(one, fds, () => ({ reply: one, fds, close: () => {} }));
  }

  /** The ids of the replies that the other side reads now, and the number of their descriptors. */
  function read(): { ids: number[]; fds: number } {
    const found = { ids: [] as number[], fds: 0 };
    for (
      let packet = peer.tryReceive();
      packet !== undefined && packet !== "end";
      packet = peer.tryReceive()
    ) {
      found.ids.push(JSON.parse(Buffer.from(packet.bytes).toString()).id);
      found.fds += packet.fds.length;
      for (const fd of packet.fds) fd.close();
    }
    return found;
  }

  beforeEach(() => {
    unread = new UnreadDescriptors();
  });

  it("charges the client for waiting replies until they are read, in order", async () => {
    open();
    let sent = 0;
    for (; account.used("unreadBytes") <= limits.unreadBytesWhileServed; sent += 1)
      send(reply(sent + 1, PADDING));
    assert.equal(client.isCrowded, true);
    const ids: number[] = [];
    await until("all is read", () => ids.push(...read().ids) === sent);
    assert.deepEqual(
      ids,
      Array.from({ length: sent }, (_, index) => index + 1),
    );
    assert.deepEqual([account.used("unreadBytes"), client.isCrowded], [0, false]);
  });

  it("refuses replies over the client's limit", () => {
    open({ unreadBytes: 200_000 });
    assert.throws(
      () => {
        for (let id = 1; id < 100; id += 1) send(reply(id, PADDING));
      },
      { code: "LIMIT_EXCEEDED", message: /limits\.client\.unreadBytes/ },
    );
    client.close();
    assert.equal(account.used("unreadBytes"), 0);
  });

  it("holds replies back while too many descriptors are unread", async () => {
    open({ unreadDescriptors: 2 });
    using memory = createMemoryFile("memory", 4096);
    for (const id of [1, 2, 3]) send(reply(id), [memory]);
    assert.equal(account.used("unreadDescriptors"), 2);
    assert.deepEqual(read(), { ids: [1, 2], fds: 2 });
    await until("the third is sent", () => client.flush() || account.used("unreadBytes") === 0);
    assert.deepEqual(read(), { ids: [3], fds: 1 });
  });

  it("sends once another client of the same user has read its descriptors", () => {
    open();
    const user = new Account("user", "user 7", { ...unlimitedQuota, unreadDescriptors: 1 });
    const others = [SeqpacketSocket.pair(), SeqpacketSocket.pair()];
    const [one, other] = others.map(([near]) => unread.of(near, user));
    using memory = createMemoryFile("memory", 4096);
    assert.ok(one?.tryAdd(1) && others[0]?.[0].trySend(Buffer.from("x"), [memory]));
    assert.equal(other?.tryAdd(1), false);
    const packet = others[0]?.[1].tryReceive();
    assert.ok(packet !== undefined && packet !== "end");
    for (const fd of packet.fds) fd.close();
    assert.equal(other?.tryAdd(1), true);
    for (const socket of others.flat()) socket.close();
  });

  it("charges unread descriptors after the hang-up until they are read or the reader is gone", async () => {
    for (const leaves of [false, true]) {
      open();
      using memory = createMemoryFile("memory", 4096);
      send(reply(1), [memory]);
      client.close();
      const used = () => [account.used("unreadDescriptors"), account.used("clients")];
      // Its socket is open, so it counts as a client.
      assert.deepEqual(used(), [1, 1]);
      if (!leaves) assert.deepEqual(read(), { ids: [1], fds: 1 });
      else peer.close();
      await until("that is noticed", () => used().join() === "0,0");
      peer.close();
    }
  });

  it("keeps a reply whose descriptors cannot be reopened at the moment", async () => {
    open({ unreadDescriptors: 1 });
    using memory = createMemoryFile("memory", 4096);
    send(reply(1), [memory]);
    let asked = 0;
    client.send(reply(2), [memory], () => {
      asked += 1;
      if (asked < 3) throw systemError("open a file", "open", constants.errno.EMFILE);
      return { reply: reply(2), fds: [memory], close: () => {} };
    });
    const ids: number[] = [];
    await until("both have come", () => ids.push(...read().ids) === 2);
    assert.deepEqual([asked, ends], [3, []]);
  });

  it("frees the memory of messages that nobody handles any more on the thread pool", async (t) => {
    let sink: GateSink | undefined;
    const receive: UserGate["receive"] = (_socket, given) => {
      sink = given;
    };
    open({}, { ...gate, receive });
    using memory = createMemoryFile("memory", 4096);
    peer.trySend(Buffer.from("x"), [memory]);
    client.receive(false);
    const { mock } = t.mock.method(libc().close, "async");
    const [before, after] = [createMemoryFile("large", LARGE), createMemoryFile("large", LARGE)];
    const packet = (fd: OwnedFd) => ({ bytes: Buffer.from("x"), fds: [fd], damage: undefined });
    sink?.onPacket(packet(before));
    client.close();
    sink?.onPacket(packet(after));
    assert.ok(before.closed && after.closed);
    await until("both are freed", () => mock.callCount() === 2);
    sink?.onDone(undefined);
  });

  const shortages = {
    ETOOMANYREFS,
    EMFILE: constants.errno.EMFILE,
    ENFILE: constants.errno.ENFILE,
    ENOBUFS: constants.errno.ENOBUFS,
    ENOMEM: constants.errno.ENOMEM,
  };
  for (const [name, errno] of Object.entries(shortages)) {
    it(`keeps a reply that cannot be sent for ${name}, and sends it a moment later`, async () => {
      open();
      using memory = createMemoryFile("memory", 4096);
      const undo = interceptLibc((call) => (call === "sendmsg" ? errno : undefined));
      try {
        send(reply(1), [memory]);
      } finally {
        undo();
      }
      send(reply(2));
      const ids: number[] = [];
      await until("both have come", () => ids.push(...read().ids) === 2);
      assert.deepEqual([ids, ends], [[1, 2], []]);
    });
  }
});
