import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { hasCode } from "../../../src/base/errors.js";
import { connect } from "../../../src/client/connect.js";
import type { Hub } from "../../../src/client/hub.js";
import { createMemoryFile } from "../../../src/os/memory-file.js";
import { openPidfd } from "../../../src/os/process-watch.js";
import { SeqpacketSocket } from "../../../src/os/seqpacket.js";
import { SeqpacketListener } from "../../../src/os/seqpacket-listener.js";
import { checkLeaks } from "../../support/leak-check.js";
import { RawClient } from "../../support/raw-client.js";
import { StandInSystemd } from "../../support/stand-in-systemd.js";
import { TestFolder } from "../../support/test-folder.js";
import { soon, until } from "../../support/until.js";

const LAUNCH = fileURLToPath(new URL("../../../src/cli/launch.cjs", import.meta.url));

class ServiceRig {
  readonly folder = new TestFolder();
  readonly systemd: StandInSystemd;

  constructor() {
    const command = [
      process.execPath,
      LAUNCH,
      "hub",
      "serve",
      "--stay",
      "--socket",
      this.folder.socket,
    ];
    const { NODE_OPTIONS: _, NODE_TEST_CONTEXT: __, ...env } = process.env;
    this.systemd = new StandInSystemd(this.folder.file("notify"), command, env);
  }

  connect(): Promise<Hub> {
    return connect({ socket: this.folder.socket, start: false, device: "host" });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.systemd[Symbol.asyncDispose]();
    await this.folder[Symbol.asyncDispose]();
  }
}

/** Leaves a pinned array without holders. */
async function leavePinned(
  rig: ServiceRig,
  name: string,
  values: readonly number[],
): Promise<void> {
  const hub = await rig.connect();
  const made = (
    await hub.create(name, { dtype: "int32", shape: [values.length], lifetime: "pinned" })
  ).expectDType("int32");
  await made.write(values);
  await made.publish();
  await hub.close();
}

async function read(rig: ServiceRig, name: string): Promise<number[]> {
  const hub = await rig.connect();
  const opened = (await hub.open(name, { wait: false, access: "read-write" })).expectDType("int32");
  const values = [...(await opened.read())];
  opened.close();
  await hub.close();
  return values;
}

function objectsOf(systemd: StandInSystemd): number {
  return systemd.names().filter((name) => name.startsWith("o")).length;
}

describe("a hub that a service manager runs", () => {
  checkLeaks();

  it("passes names and memory without holders to its successor when it is killed", async () => {
    await using rig = new ServiceRig();
    const { systemd } = rig;
    await systemd.start();
    await leavePinned(rig, "frame", [1, 2, 3]);
    await leavePinned(rig, "gone", [4]);
    await until("both are stored", () => systemd.names().length === 4);
    const hub = await rig.connect();
    await hub.remove("gone");
    await hub.close();
    await until("what ended is removed", () => systemd.names().length === 3);
    assert.match(systemd.names().join(), /^listener,lock,o[0-9a-z]+$/);
    for (let count = 0; count < 3; count += 1) {
      assert.equal(await systemd.end("SIGKILL"), "SIGKILL");
      await systemd.start();
      assert.deepEqual(await read(rig, "frame"), [1, 2, 3]);
      await until("nothing is stored twice", () => systemd.names().length === 3);
    }
  });

  it("keeps everything and says no farewell when restarted, unlike when stopped", async () => {
    await using rig = new ServiceRig();
    const { systemd } = rig;
    await systemd.start();
    await leavePinned(rig, "frame", [1, 2, 3]);
    await until("it is stored", () => systemd.names().length === 3);
    assert.equal(await systemd.end("SIGTERM"), 0);
    assert.ok(existsSync(rig.folder.socket));
    await systemd.start();
    assert.deepEqual(await read(rig, "frame"), [1, 2, 3]);
    const hub = await rig.connect();
    const told = new Promise((resolve) => hub.onEnd(resolve));
    await hub.stop({ force: true });
    assert.ok(hasCode(await soon("the end is told", told), "HUB_GONE"));
    await hub.close().catch(() => {});
    await until(
      "its files are gone",
      () => !existsSync(rig.folder.socket) && !existsSync(`${rig.folder.socket}.journal`),
    );
  });

  it("ends as failed when asked to restart, and the next one has everything", async () => {
    await using rig = new ServiceRig();
    const { systemd } = rig;
    await systemd.start();
    await leavePinned(rig, "frame", [1, 2, 3]);
    await until("it is stored", () => systemd.names().length === 3);
    using raw = await RawClient.connect(rig.folder.socket);
    assert.equal((await raw.ask({ op: "restart" })).ok, true);
    assert.equal(await systemd.exited(), 75, "what Restart=on-failure starts again");
    assert.ok(!systemd.states.includes("STOPPING=1"));
    await systemd.start();
    assert.deepEqual(await read(rig, "frame"), [1, 2, 3]);
  });

  it("keeps each of several timelines in one file", async () => {
    await using rig = new ServiceRig();
    const { systemd } = rig;
    await systemd.start();
    const hub = await rig.connect();
    const [one, two, three] = await Promise.all(
      ["one", "two", "three"].map((name) => hub.createTimeline(name)),
    );
    two?.signal(7n);
    await until("all are stored", () => objectsOf(systemd) === 3);
    one?.close();
    await until("the first is removed", () => objectsOf(systemd) === 2);
    await systemd.end("SIGKILL");
    await systemd.start();
    const other = await rig.connect();
    const opened = await other.openTimeline("two");
    assert.equal(opened.value, 7n);
    opened.close();
    assert.equal((await other.status()).withoutMemory, 0);
    two?.close();
    three?.close();
    await other.close();
    await hub.close().catch(() => {});
  });

  it("closes the pidfd of a session that had ended before the manager heard of it", async () => {
    await using rig = new ServiceRig();
    const { systemd } = rig;
    const pidfd = openPidfd(process.pid);
    assert.ok(pidfd !== undefined);
    systemd.stored.push({ name: "p3g", fd: pidfd });
    await systemd.start();
    const folder = `/proc/${systemd.pid}/fdinfo`;
    const found = readdirSync(folder).filter((fd) =>
      readFileSync(`${folder}/${fd}`, "utf8").includes(`Pid:\t${process.pid}\n`),
    );
    assert.deepEqual(found, []);
    await until("the manager closes it", () => systemd.stored.every(({ name }) => name !== "p3g"));
  });

  it("listens on the passed socket, serves clients there, and leaves its file", async () => {
    await using rig = new ServiceRig();
    const { systemd } = rig;
    const listener = SeqpacketListener.listen(rig.folder.socket);
    systemd.passed.push({ name: "cuda-ipc-hub.socket", fd: listener.fd });
    // A client that connects before the hub runs is served when it runs.
    const early = rig.connect();
    await systemd.start();
    const hub = await early;
    assert.equal((await hub.status()).pid, systemd.pid);
    const socket = SeqpacketSocket.connect(rig.folder.socket);
    assert.equal(socket.peerCredentials().pid, systemd.pid);
    socket.close();
    await until("it keeps no other", () => systemd.names().join() === "lock");
    await hub.stop({ force: true });
    await hub.close().catch(() => {});
    await until("it has ended", () => !existsSync(`${rig.folder.socket}.journal`));
    assert.ok(existsSync(rig.folder.socket));
  });

  it("does not use other memory, and drops unknown descriptors", async () => {
    await using rig = new ServiceRig();
    const { systemd } = rig;
    await systemd.start();
    await leavePinned(rig, "frame", [1, 2, 3]);
    await until("it is stored", () => systemd.names().length === 3);
    await systemd.end("SIGKILL");
    const frame = systemd.stored.findIndex(({ name }) => name.startsWith("o"));
    const name = systemd.stored[frame]?.name ?? "";
    systemd.stored[frame]?.fd.close();
    systemd.stored[frame] = { name, fd: createMemoryFile("other", 4096) };
    systemd.stored.push({ name: "o1", fd: createMemoryFile("stranger", 4096) });
    await systemd.start();
    await until("both are let go", () => systemd.names().join() === "listener,lock");
    assert.match(systemd.output, /memory of "frame" that was kept is not used: INVALID_DESCRIPTOR/);
    await assert.rejects(read(rig, "frame"), (error) => hasCode(error, "NOT_FOUND"));
  });

  it("reports its status from time to time", async () => {
    await using rig = new ServiceRig();
    await rig.systemd.start();
    await leavePinned(rig, "frame", [1]);
    await until("it says so", () =>
      rig.systemd.states.some((state) => /^STATUS=1 objects of 0 clients$/.test(state)),
    );
  });
});
