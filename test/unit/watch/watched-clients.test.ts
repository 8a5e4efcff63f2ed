import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Deadline } from "../../../src/base/deadline.js";
import type { HubLink } from "../../../src/client/connection/hub-link.js";
import { CommandReader } from "../../../src/os/command-reader.js";
import { WatchedClients } from "../../../src/watch/watched-clients.js";
import type { ClientStatus } from "../../../src/wire/messages.js";
import { FakeProc } from "../../support/fake-proc.js";
import { until } from "../../support/until.js";

/** WHY no limit: a busy machine may take long to start a child. */
const limitMs = 2 ** 31 - 1;

function client(session: number, pid: number, program = "worker"): ClientStatus {
  const nothing = { leases: 0, waitingOpens: 0, hostBytes: 0, deviceBytes: 0 };
  return { session, pid, uid: 0, program, connected: true, ...nothing };
}

/** A hub with these clients and this process. */
function linkTo(clients: readonly ClientStatus[]): HubLink {
  const all = [client(1, process.pid), ...clients];
  return { session: 1, request: async () => ({ clients: all, next: null }) } as unknown as HubLink;
}

const deadline = () => new Deadline("look", {}, 100_000);

describe("WatchedClients", () => {
  it("has command lines and languages", async () => {
    using proc = new FakeProc();
    proc.add(7, { cmdline: "python3\0-m\0worker\0" });
    const clients = new WatchedClients(new CommandReader({ proc: proc.path, limitMs }));
    await clients.update(linkTo([client(2, 7), client(3, 8, "reader.mjs")]), deadline());
    const found = clients.holding([]).map(({ command, language }) => [command, language]);
    assert.deepEqual(found, [
      ["python3 -m worker", "Python"],
      [undefined, "JavaScript"],
    ]);
  });

  it("does not wait for a process that does not answer, and knows the others", async () => {
    using proc = new FakeProc();
    proc.add(7, { cmdline: "one\0" });
    proc.addSilent(8);
    proc.add(9, { cmdline: "nine\0" });
    const reader = new CommandReader({ proc: proc.path, limitMs });
    const clients = new WatchedClients(reader);
    const link = linkTo([client(2, 7), client(3, 8), client(4, 9)]);
    const commands = () => clients.holding([]).map(({ command }) => command);
    const first = clients.update(link, deadline());
    await proc.isAsked(8);
    reader.giveUp();
    await first;
    assert.deepEqual(commands(), ["one", undefined, undefined]);
    // The next looks do not wait.
    await until("the rest is known", async () => {
      await clients.update(link, deadline());
      return commands()[2] === "nine";
    });
    assert.deepEqual(commands(), ["one", undefined, "nine"]);
  });

  it("drops what it reads for a hub that it has left", async () => {
    using proc = new FakeProc();
    proc.add(7, { cmdline: "one\0" });
    proc.addSilent(8);
    const clients = new WatchedClients(new CommandReader({ proc: proc.path, limitMs }));
    const first = clients.update(linkTo([client(2, 7), client(3, 8)]), deadline());
    await proc.isAsked(8);
    clients.clear();
    await first;
    proc.add(10, { cmdline: "ten\0" });
    await until("the next hub's client is known", async () => {
      await clients.update(linkTo([client(2, 10)]), deadline());
      return clients.holding([])[0]?.command === "ten";
    });
  });
});
