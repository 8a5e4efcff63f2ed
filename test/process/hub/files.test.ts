/**
 * The files beside the socket are removed, one by one and together, while a hub and its clients
 * run.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { CudaIpcError, hasCode } from "../../../src/base/errors.js";
import { connect } from "../../../src/client/connect.js";
import { HubServer } from "../../../src/hub/server/hub-server.js";
import { tryLockPath } from "../../../src/os/file-lock.js";
import { isTwinHeld, tryHoldTwin } from "../../../src/os/socket-twin.js";
import { checkLeaks } from "../../support/leak-check.js";
import { untilStopped } from "../../support/process-state.js";
import { TestFolder } from "../../support/test-folder.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";

/** Starts a second hub at the socket. Returns its error, or "started". */
function secondHub(socket: string): unknown {
  try {
    HubServer.start({ socket }).stop();
    return "started";
  } catch (error) {
    return error instanceof CudaIpcError ? `${error.code} ${error.message}` : error;
  }
}

async function keeperOf(testHub: TestHub): Promise<number> {
  await using client = await testHub.connect({ reconnect: false });
  const { keeper } = await client.status();
  assert.ok(keeper !== null);
  return keeper.pid;
}

const suffixes = {
  socket: "",
  lock: ".lock",
  journal: ".journal",
  reserve: ".journal.new",
} as const;
type Suffix = keyof typeof suffixes;

/** Changes several things before the hub sees one of them. */
async function whileStopped(hub: TestHub, change: () => void): Promise<void> {
  hub.kill("SIGSTOP");
  await untilStopped(hub.pid);
  change();
  hub.kill("SIGCONT");
}

/** Stops the hub, removes its files, and starts another at its socket. */
async function displace(first: TestHub): Promise<TestHub> {
  first.kill("SIGSTOP");
  for (const suffix of Object.values(suffixes)) rmSync(`${first.socket}${suffix}`, { force: true });
  return TestHub.start({ folder: first.folder });
}

describe("a hub whose files are removed", () => {
  checkLeaks();

  const cases: readonly (readonly Suffix[])[] = [
    ["lock"],
    ["socket"],
    ["journal"],
    ["reserve"],
    ["lock", "socket"],
    ["socket", "journal"],
    ["lock", "journal"],
    ["lock", "socket", "journal", "reserve"],
  ];
  for (const removed of cases) {
    it(`makes them again: ${removed.join(", ")}`, async () => {
      await using hub = await TestHub.start();
      await using before = await hub.connect({ reconnect: true });
      using array = await before.create("frame", { dtype: "uint8", shape: [3] });
      await array.write([1, 2, 3]);
      await array.publish();
      for (const name of removed) rmSync(`${hub.socket}${suffixes[name]}`);
      await until("the files are there again", () =>
        removed.every((name) => name === "reserve" || existsSync(`${hub.socket}${suffixes[name]}`)),
      );
      await using after = await hub.connect();
      const { pid, troubles } = await after.status();
      assert.deepEqual([pid, troubles], [hub.pid, []]);
      assert.match(String(secondHub(hub.socket)), new RegExp(`^HUB_RUNNING .*process ${hub.pid}`));
      using opened = await after.open("frame");
      assert.deepEqual(await opened.read(), new Uint8Array([1, 2, 3]));
      // The journal is complete: after a crash the name is there.
      const socket = statSync(hub.socket);
      assert.equal(socket.mode & 0o777, 0o600);
      await until("the journal has the name", () =>
        readFileSync(`${hub.socket}.journal`, "utf8").includes("frame"),
      );
      hub.kill("SIGKILL");
      await hub.exited();
      await until("the client is at the next hub", async () => (await before.status()).pid !== pid);
      assert.deepEqual(
        (await before.list()).map(({ name }) => name),
        ["frame"],
      );
    });
  }

  it("makes its folder again, and no second hub starts meanwhile", async () => {
    await using hub = await TestHub.start();
    await using client = await hub.connect();
    for (const start of [true, false]) {
      rmSync(hub.folder.path, { recursive: true });
      await using other = await connect({ socket: hub.socket, start });
      assert.equal((await other.status()).pid, hub.pid);
      await until("all is there", () => existsSync(`${hub.socket}.journal`));
      assert.deepEqual((await client.status()).troubles, []);
    }
  });

  it("ends if nobody uses it when its folder is removed", async () => {
    await using hub = await TestHub.start({ idleMs: 600_000 });
    rmSync(hub.folder.path, { recursive: true });
    await hub.exited();
    assert.equal(existsSync(hub.folder.path), false);
    mkdirSync(hub.folder.path, { mode: 0o700 });
  });

  it("is found without its folder, says so, and goes on when the folder is back", async () => {
    await using hub = await TestHub.start();
    await using client = await hub.connect();
    using array = await client.create("kept", { dtype: "uint8", shape: [1] });
    await array.publish();
    await whileStopped(hub, () => {
      rmSync(hub.folder.path, { recursive: true });
      writeFileSync(hub.folder.path, "in the way of a folder");
    });
    await until("it says so", async () =>
      /by an abstract socket/.test((await client.status()).troubles.join()),
    );
    for (const start of [true, false]) {
      await using other = await connect({ socket: hub.socket, start });
      assert.deepEqual(
        (await other.list()).map(({ name }) => name),
        ["kept"],
      );
    }
    // The next hub would find neither the folder nor the names.
    await assert.rejects(client.restart(), (error) => hasCode(error, "HUB_UNAVAILABLE"));
    await whileStopped(hub, () => {
      rmSync(hub.folder.path);
      mkdirSync(hub.folder.path, { mode: 0o700 });
    });
    await until("all is well", async () => (await client.status()).troubles.length === 0);
    await using other = await hub.connect();
    assert.equal((await other.status()).pid, hub.pid);
  });

  it("says that nobody finds it without its folder if another process has the twin", async () => {
    const folder = new TestFolder();
    const twin = tryHoldTwin(folder.socket);
    assert.ok(twin !== undefined);
    await using hub = await TestHub.start({ folder });
    await using client = await hub.connect();
    rmSync(folder.path, { recursive: true });
    writeFileSync(folder.path, "in the way of a folder");
    await until("it says so", async () =>
      /No program finds this hub now/.test((await client.status()).troubles.join()),
    );
    twin.close();
    await until("it has the twin", async () =>
      /by an abstract socket/.test((await client.status()).troubles.join()),
    );
    await using other = await connect({ socket: folder.socket, start: false });
    assert.equal((await other.status()).pid, hub.pid);
    rmSync(folder.path);
    await until("all is well", async () => (await client.status()).troubles.length === 0);
  });

  it("takes the twin at its next look once no other process has it", async () => {
    await using folder = new TestFolder();
    const twin = tryHoldTwin(folder.socket);
    assert.ok(twin !== undefined);
    const hub = HubServer.start({ socket: folder.socket });
    twin.close();
    let looks = 0;
    await until("the hub has it", () => {
      looks += 1;
      writeFileSync(folder.file(`look ${looks}`), "");
      return isTwinHeld(folder.socket);
    });
    hub.stop();
  });

  it("is waited for while it starts: it has the lock before it listens", async () => {
    await using folder = new TestFolder();
    const lock = tryLockPath(`${folder.socket}.lock`);
    const client = connect({ socket: folder.socket, start: false });
    await setImmediate();
    lock?.close();
    const hub = HubServer.start({ socket: folder.socket });
    await (await client).close();
    hub.stop();
  });

  it("makes no file in a folder that others can write to, and says so until it is safe", async () => {
    await using hub = await TestHub.start();
    await using client = await hub.connect();
    await whileStopped(hub, () => {
      rmSync(hub.folder.path, { recursive: true });
      mkdirSync(hub.folder.path);
      chmodSync(hub.folder.path, 0o777);
    });
    await until("it says so", async () =>
      /its mode is 0777/.test((await client.status()).troubles.join()),
    );
    assert.deepEqual(readdirSync(hub.folder.path), []);
    chmodSync(hub.folder.path, 0o700);
    await until("all is well", async () => (await client.status()).troubles.length === 0);
    await using other = await hub.connect();
    assert.equal((await other.status()).pid, hub.pid);
  });

  it("that was replaced serves its clients and leaves the other hub's files alone", async () => {
    await using first = await TestHub.start();
    await using client = await first.connect({ reconnect: false });
    using _ = await client.create("kept", { dtype: "uint8", shape: [1] });
    const second = await displace(first);
    first.kill("SIGCONT");
    await until("it knows", async () => {
      return (await client.status()).troubles
        .join()
        .includes(`Another hub (process ${second.pid}) has taken`);
    });
    using more = await client.create("more", { dtype: "uint8", shape: [1] });
    await more.publish();
    // WHY identities, not existence: the other hub would create removed files again.
    const files = ["socket", "lock", "journal"] as const;
    const identities = () => {
      const stats = files.map((name) => statSync(`${first.socket}${suffixes[name]}`));
      return stats.map(({ ino, birthtimeMs }) => [ino, birthtimeMs]);
    };
    const before = identities();
    await client.stop({ force: true });
    await first.exited();
    await using other = await second.connect();
    const { pid, objects } = await other.status();
    assert.deepEqual([pid, objects, identities()], [second.pid, 0, before]);
  });

  it("takes its files back when the other hub has ended", async () => {
    await using first = await TestHub.start();
    await using client = await first.connect({ reconnect: false });
    const second = await displace(first);
    first.kill("SIGCONT");
    await until("it knows", async () => (await client.status()).troubles.length > 0);
    await using ruler = await second.connect({ reconnect: false });
    await ruler.stop({ force: true });
    await second.exited();
    await until("it is well", async () => (await client.status()).troubles.length === 0);
    await using other = await first.connect();
    assert.equal((await other.status()).pid, first.pid);
  });

  it("takes its files back when the other hub was killed, although no file shows it", async () => {
    await using first = await TestHub.start();
    await using client = await first.connect({ reconnect: false });
    const second = await displace(first);
    const keeper = await keeperOf(second);
    first.kill("SIGCONT");
    await until("it knows", async () => (await client.status()).troubles.length > 0);
    // WHY stopped first: hub and keeper would each start the other again.
    second.kill("SIGSTOP");
    process.kill(keeper, "SIGKILL");
    second.kill("SIGKILL");
    await second.exited();
    await until("it is well", async () => (await client.status()).troubles.length === 0);
    await using other = await first.connect();
    assert.equal((await other.status()).pid, first.pid);
  });

  it("without a socket is reported with the lock's holder and the command to end it", async () => {
    const folder = new TestFolder();
    const lock = tryLockPath(`${folder.socket}.lock`);
    const message = new RegExp(
      `process ${process.pid} has the lock of a hub there, and there is no socket yet: it .*` +
        `may be starting.*kill ${process.pid}`,
    );
    try {
      for (const start of [true, false]) {
        await assert.rejects(
          connect({ socket: folder.socket, start, timeoutMs: 1000 }),
          (error) => hasCode(error, "HUB_UNAVAILABLE") && message.test(error.message),
        );
      }
    } finally {
      // WHY first: a hub that was started here waits for the lock, and would then make its files.
      folder[Symbol.dispose]();
      lock?.close();
    }
  });
});

describe("a hub that finds something else in place of a file", () => {
  checkLeaks();

  const odd: Record<string, (path: string) => void> = {
    "a FIFO": (path) => assert.equal(spawnSync("mkfifo", [path]).status, 0),
    "a folder": (path) => mkdirSync(path),
    "a symbolic link": (path) => symlinkSync("/dev/null", path),
    "a socket": (path) => assert.equal(spawnSync("python3", ["-c", SOCKET, path]).status, 0),
  };
  for (const [what, make] of Object.entries(odd)) {
    for (const suffix of [".lock", ".journal", ".start", ".log"]) {
      it(`does not start and says so: ${what} at hub.sock${suffix}`, async () => {
        await using folder = new TestFolder();
        make(`${folder.socket}${suffix}`);
        await assert.rejects(
          connect({ socket: folder.socket, hubIdleMs: 1000 }),
          (error) =>
            error instanceof CudaIpcError &&
            error.message.includes(`it is ${what} and not a plain file`),
        );
        rmSync(`${folder.socket}${suffix}`, { recursive: true });
      });
    }
  }

  it("does not use a file of another user", {
    skip: process.geteuid?.() !== 0 && "only root can give files away",
  }, () => {
    using folder = new TestFolder();
    for (const suffix of [".lock", ".journal"]) {
      writeFileSync(`${folder.socket}${suffix}`, "");
      spawnSync("chown", ["12345", `${folder.socket}${suffix}`]);
      assert.match(String(secondHub(folder.socket)), /it belongs to user 12345/);
      rmSync(`${folder.socket}${suffix}`);
    }
  });
});

const SOCKET = "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])";
