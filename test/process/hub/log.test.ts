/** The log of a hub: its levels and forms, for a hub in the foreground and in the background. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { createInterface } from "node:readline";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { hasCode } from "../../../src/base/errors.js";
import { connect } from "../../../src/client/connect.js";
import type { Hub } from "../../../src/client/hub.js";
import { HubWatch } from "../../../src/watch/hub-watch.js";
import { killHub, TestFolder } from "../../support/test-folder.js";
import { TestHub } from "../../support/test-hub.js";
import { soon, until } from "../../support/until.js";

const LAUNCH = fileURLToPath(new URL("../../../src/cli/launch.cjs", import.meta.url));
const HUB_MAIN = fileURLToPath(new URL("../../../src/hub/main.js", import.meta.url));
const ARRAY = { dtype: "uint8", shape: [4096] } as const;

interface Line {
  readonly time: string;
  readonly level: string;
  readonly event: string;
  readonly message: string;
  readonly [field: string]: unknown;
}

/** The lines of a log of JSON. */
function linesOf(path: string): Line[] {
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, "utf8").trimEnd().split("\n");
  return lines.filter((line) => line !== "").map((line) => JSON.parse(line) as Line);
}

function eventsOf(path: string): string[] {
  return linesOf(path).map(({ event }) => event);
}

/** Joins a hub that is being started by another process. */
async function joined(socket: string): Promise<Hub> {
  let hub: Hub | undefined;
  await until("it serves", async () => {
    try {
      hub = await connect({ socket, start: false, device: "host" });
    } catch (error) {
      // Its socket is there a moment before it listens.
      if (!hasCode(error, "HUB_UNAVAILABLE")) throw error;
    }
    return hub !== undefined;
  });
  assert.ok(hub !== undefined);
  return hub;
}

/** What comes before the connection, and says nothing. */
function isStarted(hub: Hub, earlier: number): Promise<void> {
  return until("the next hub answers", async () => (await hub.status()).pid !== earlier);
}

describe("a hub's log", () => {
  it("has each change as JSON at level debug", async () => {
    const config = { logLevel: "debug", logFormat: "json" };
    await using testHub = await TestHub.start({ config, log: true });
    const path = testHub.folder.file("log");
    {
      await using hub = await testHub.connect({ program: "camera" });
      using array = await hub.create("frame", ARRAY);
      await array.publish();
      await hub.remove("frame");
    }
    await until("the client is gone", () => eventsOf(path).includes("client-disconnected"));
    const lines = linesOf(path);
    const found = (event: string) => {
      const line = lines.find((line) => line.event === event);
      assert.ok(line !== undefined, `no ${event} in ${JSON.stringify(lines)}`);
      return line;
    };
    const { pid } = process;
    const uid = process.getuid?.();
    assert.equal(found("hub-started").pid, testHub.pid);
    const { object } = found("object-created");
    const { session } = found("session-began");
    const { lease } = found("lease-granted");
    for (const [event, fields] of [
      ["client-connected", { pid, uid }],
      ["session-began", { session, pid, uid }],
      ["object-created", { object, name: "frame", bytes: 4096, pid, uid }],
      ["lease-granted", { lease, object, session }],
      ["object-published", { object }],
      ["object-removed", { object }],
      ["lease-released", { lease }],
      ["object-ended", { object }],
      ["session-ended", { session }],
      ["client-disconnected", { pid, uid }],
    ] as const) {
      const { time, level, event: _, message, ...rest } = found(event);
      assert.deepEqual([level, rest], ["debug", fields], event);
      assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      assert.notEqual(message, "");
    }
  });

  it("says who disconnected whom, at level info", async () => {
    const config = { logLevel: "info", logFormat: "json" };
    await using testHub = await TestHub.start({ config, log: true });
    await using hub = await testHub.connect({ program: "stuck" });
    await using watch = new HubWatch({ socket: testHub.socket, program: "test" });
    const { clients } = await watch.snapshot();
    const [{ session } = { session: 0 }] = clients;
    await watch.disconnect(session);
    await assert.rejects(hub.list(), (error) => hasCode(error, "DISCONNECTED"));
    const [pid, uid] = [process.pid, process.getuid?.()];
    const lines = linesOf(testHub.folder.file("log"));
    const found = lines.find(({ event }) => event === "session-disconnected");
    const { time: _, message, ...rest } = found ?? assert.fail(JSON.stringify(lines));
    assert.deepEqual(rest, { level: "info", event: "session-disconnected", session, pid, uid });
    const who = `session ${session} of process ${pid} (stuck)`;
    assert.equal(message, `${who} was disconnected by process ${pid} of user ${uid}`);
  });

  it("says nothing at level warn of clients that come, go and are killed", async () => {
    const config = { logLevel: "warn", logFormat: "json" };
    await using testHub = await TestHub.start({ config, log: true });
    await using hub = await testHub.connect();
    const source = `
      const { connect } = await import(process.argv[1]);
      const hub = await connect({ socket: process.argv[2], start: false, device: "host" });
      for (let count = 0; count < 50; count += 1) void hub.list().catch(() => {});
      await new Promise((resolve) => setImmediate(resolve));
      // It dies with answers that it has not read, which the hub sees as an error.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
      process.kill(process.pid, "SIGKILL");`;
    const door = new URL("../../../src/index.js", import.meta.url).href;
    const args = ["--input-type=module", "-e", source, door, testHub.socket];
    await soon("it is killed", once(spawn(process.execPath, args), "exit"));
    await until("it is gone", async () => (await hub.status()).clients === 1);
    assert.deepEqual(linesOf(testHub.folder.file("log")), []);
  });

  for (const format of ["text", "json"] as const) {
    it(`has one line for a program whose name forges another (${format})`, async () => {
      const config = { logLevel: "debug", logFormat: format };
      await using testHub = await TestHub.start({ config, log: true });
      const forged = '\n2020-01-01T00:00:00.000Z  forged\n{"level":"error"}\u001b[2J';
      {
        await using hub = await testHub.connect({ program: forged });
        using _array = await hub.create("frame", ARRAY);
      }
      const text = readFileSync(testHub.folder.file("log"), "utf8");
      assert.match(text, /forged/);
      const begin = format === "text" ? /^20[2-9]\d-\d\d-\d\dT\S+Z {2}[^{]/ : /^\{"time":"20/;
      for (const line of text.trimEnd().split("\n")) {
        assert.match(line, begin);
        assert.doesNotMatch(line, /^2020|\p{Cc}/u);
      }
    });
  }

  it("keeps its settings in the hub that a keeper starts, and tells a crash from a restart", async () => {
    await using folder = new TestFolder();
    const { socket } = folder;
    const flags = ["--stay", "--log-level", "warn", "--log-format", "json"];
    const args = [LAUNCH, "hub", "serve", "--socket", socket, ...flags];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    let said = "";
    child.stdout.on("data", (bytes) => {
      said += bytes;
    });
    await using _end = { [Symbol.asyncDispose]: () => killHub(folder.path) };
    await using hub = await joined(socket);
    const log = `${socket}.log`;

    const { pid: first } = await hub.status();
    process.kill(first, "SIGKILL");
    await isStarted(hub, first);
    assert.deepEqual(eventsOf(log), ["hub-crashed"]);

    const { pid: second } = await hub.status();
    await hub.restart();
    await isStarted(hub, second);
    assert.deepEqual(eventsOf(log), ["hub-crashed"], "a restart needs no person");

    rmSync(`${socket}.lock`);
    await until("it says so", () => eventsOf(log).includes("file-remade"));
    assert.deepEqual(linesOf(log).at(-1)?.path, `${socket}.lock`);
    assert.equal(said, "", "the first hub said nothing at level warn");
  });

  it("takes its settings from the environment, and refuses wrong ones", async () => {
    await using folder = new TestFolder();
    const start = async (env: NodeJS.ProcessEnv) => {
      const child = spawn(process.execPath, [HUB_MAIN, "--socket", folder.socket], {
        env: { ...process.env, ...env },
        stdio: ["ignore", "pipe", "pipe"],
      });
      const [[ready], [line]] = await soon(
        "it speaks",
        Promise.all([
          once(createInterface({ input: child.stdout }), "line"),
          once(createInterface({ input: child.stderr }), "line"),
        ]),
      );
      child.kill("SIGTERM");
      await soon("it ends", once(child, "exit"));
      return { ready: JSON.parse(String(ready)), line: String(line) };
    };
    const { line } = await start({ CUDA_IPC_LOG_FORMAT: "json" });
    assert.equal(JSON.parse(line).event, "hub-started");
    const refused = await start({ CUDA_IPC_LOG_LEVEL: "loud" });
    assert.equal(refused.ready.ready, false);
    assert.match(refused.ready.message, /CUDA_IPC_LOG_LEVEL.*logLevel is "loud", wanted one of/);
  });

  for (const [what, words] of [
    ["in the foreground", [LAUNCH, "hub", "serve", "--stay"]],
    ["in the background", [HUB_MAIN, "--idle-ms", "Infinity"]],
  ] as const) {
    it(`does not stop a hub ${what} if nobody reads it`, async () => {
      await using folder = new TestFolder();
      const { socket } = folder;
      const child = spawn(process.execPath, [...words, "--socket", socket], {
        env: { ...process.env, CUDA_IPC_LOG_LEVEL: "debug" },
        // Nobody reads these pipes.
        stdio: ["ignore", "pipe", "pipe"],
      });
      child.stdout.pause();
      child.stderr.pause();
      await using _end = { [Symbol.asyncDispose]: () => killHub(folder.path) };
      await using hub = await joined(socket);
      // Each has five lines of about 100 bytes. A pipe and its reader hold less than 200 KiB.
      for (let count = 0; count < 1000; count += 1) {
        using array = await hub.create(`frame-${count}`, ARRAY);
        await array.publish();
      }
      assert.equal((await hub.status({ timeoutMs: 10_000 })).objects, 0);
    });
  }
});
