/**
 * Clients that died with their hub: the next hub releases their leases step by step while new
 * clients connect.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { describe, it } from "node:test";
import type { HubRecord } from "../../../src/hub/restart/hub-records.js";
import { Journal } from "../../../src/hub/restart/journal.js";
import { HubServer } from "../../../src/hub/server/hub-server.js";
import { connect } from "../../../src/index.js";
import { ownIdentity } from "../../../src/os/process-identity.js";
import { checkLeaks } from "../../support/leak-check.js";
import { hostArray } from "../../support/messages.js";
import { TestFolder } from "../../support/test-folder.js";
import { until } from "../../support/until.js";

const SESSION = 100;
const OBJECT = 101;
const LEASES = 20_000;

/** Writes a journal in which a dead process has more leases than one step releases. */
function leave(path: string): void {
  const { bootId, pidNamespace } = ownIdentity();
  const { pid } = spawnSync(process.execPath, ["--version"]);
  const [uid, gid] = [process.geteuid?.() ?? 0, process.getegid?.() ?? 0];
  const peer = { pid, pidNamespace, pidfdInode: null, startTicks: 1, uid, gid, groups: [] };
  const records: HubRecord[] = [
    { t: "session", id: SESSION, ...peer, program: "ended" },
    {
      t: "object",
      id: OBJECT,
      name: "kept",
      lifetime: "held",
      sharing: { with: "private", access: "read" },
      descriptor: hostArray,
      createdAtMs: 0,
      owner: { pid, uid, gid },
      inodes: ["1:1"],
      writable: true,
    },
    { t: "published", object: OBJECT },
  ];
  for (let index = 1; index <= LEASES; index += 1) {
    const kind = index === 1 ? "owner" : "read";
    const id = OBJECT + index;
    records.push({ t: "lease", id, object: OBJECT, session: SESSION, kind, sinceMs: 0 });
  }
  const { journal } = Journal.open(path, bootId, () => {});
  journal.append(records);
  journal.close();
}

describe("clients of an earlier hub that have ended", () => {
  checkLeaks();

  it("are not mistaken for a client that connects while their leases end", async () => {
    await using folder = new TestFolder();
    leave(`${folder.socket}.journal`);
    const server = HubServer.start({ socket: folder.socket, idleMs: Number.POSITIVE_INFINITY });
    try {
      const hub = await connect({ socket: folder.socket, start: false, device: "host" });
      const found = await hub.status();
      assert.deepEqual(
        [found.clients, found.detached],
        [1, 1],
        "the one that ended still holds something",
      );
      await until("all of it is given back", async () => (await hub.status()).leases === 0);
      const left = await hub.status();
      assert.deepEqual([left.clients, left.detached, left.objects], [1, 0, 0]);
      await hub.close();
    } finally {
      server.stop();
      await server.ended;
    }
  });
});
