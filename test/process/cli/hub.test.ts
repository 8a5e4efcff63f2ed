import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { createInterface } from "node:readline";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { connect } from "../../../src/client/connect.js";
import { encodeNpyHeader } from "../../../src/files/npy-header.js";
import { HubServer } from "../../../src/hub/hub-server.js";
import { killHub } from "../../support/test-folder.js";
import { CliRig, type Started } from "./cli-rig.js";

/** The hub as a person runs it, and as a client starts it. */
const HUBS = [["../../../src/cli/launch.cjs", "hub", "serve"], ["../../../src/hub/main.js"]] as const;

/** Resolves with the first line that a hub in the foreground says: it listens. */
async function firstLine({ child }: Started): Promise<string> {
  assert.ok(child.stdout !== null);
  const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  return line;
}

function npy(values: readonly number[]): Buffer {
  return Buffer.concat([encodeNpyHeader("int32", [values.length]), new Uint8Array(Int32Array.from(values).buffer)]);
}

describe("cuda-ipc hub", () => {
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    it(`serves until ${signal}, and takes its socket away`, async () => {
      await using rig = await CliRig.open();
      const served = rig.start("hub", "serve", "--stay");
      assert.match(await firstLine(served), /hub \d+ listens at /);
      served.child.kill(signal);
      const { code, stdout, stderr } = await served.outcome;
      assert.deepEqual([code, stderr], [0, ""]);
      assert.match(stdout, /interrupted: hub ended\n$/);
      assert.equal(existsSync(rig.socket), false);
    });
  }

  it("serves at the socket that it is told, until it is idle", async () => {
    await using rig = await CliRig.open();
    const socket = rig.path("other.sock");
    const served = rig.start("hub", "serve", "--socket", socket, "--idle-ms", "1");
    assert.match(await firstLine(served), /listens at .*other\.sock/);
    const { code, stdout } = await served.outcome;
    assert.equal(code, 0);
    assert.match(stdout, /no clients and no objects for 1 ms\n.*hub ended\n$/);
  });

  it("tells of a hub that ended without cleaning up", async () => {
    await using rig = await CliRig.open();
    const served = rig.start("hub", "serve", "--stay");
    await firstLine(served);
    await killHub(rig.folder);
    await served.outcome;
    const words = `a hub ended at ${rig.socket} without cleaning up; the next one brings back what processes still hold`;
    assert.equal(await rig.ok("ls"), `Nothing is shared: ${words}.\n`);
    assert.match(await rig.ok("hub", "status"), new RegExp(`^No hub runs: ${words}\\. One is started `));
    assert.ok((await rig.ok("hub", "stop")).includes(words));
    assert.ok((await rig.fails("NOT_FOUND", "inspect", "x")).includes(words));
    assert.deepEqual(await rig.json("hub", "status"), { running: false, socket: rig.socket });
    await using _hub = await rig.join();
    assert.equal(await rig.ok("ls"), "Nothing is shared.\n");
  });

  it("tells of processes that have not come back to it after a crash, and of objects whose memory they have", async () => {
    await using rig = await CliRig.open();
    const first = rig.start("hub", "serve", "--stay");
    await firstLine(first);
    await using hub = await connect({ socket: rig.socket, device: "host", reconnect: false });
    using _array = await hub.create("x", { dtype: "int8", shape: [8] });
    assert.doesNotMatch(await rig.ok("hub", "status"), /without/);
    await killHub(rig.folder);
    await first.outcome;
    await firstLine(rig.start("hub", "serve", "--stay"));
    const status = await rig.ok("hub", "status");
    assert.match(
      status,
      /^clients +0 \(besides this command\), and 1 without a connection whose process still holds /m,
    );
    assert.match(status, /^ +1 without memory, until a process that holds it comes back$/m);
  });

  it("is killed, and what was put is still there; is restarted, and says how long that took", async () => {
    await using rig = await CliRig.open();
    await writeFile(rig.path("x.npy"), npy([1, 2, 3]));
    await rig.ok("put", "x", rig.path("x.npy"));
    const { pid, keeper } = await rig.json<{ pid: number; keeper: { pid: number } }>("hub", "status");
    process.kill(pid, "SIGKILL");
    assert.match(await rig.ok("ls"), /^x /m);
    await rig.ok("get", "x", rig.path("copy.npy"));
    assert.deepEqual(await readFile(rig.path("copy.npy")), await readFile(rig.path("x.npy")));
    const status = await rig.ok("hub", "status");
    assert.match(status, new RegExp(`^keeper +process ${keeper.pid}, has 3 descriptors for the next hub$`, "m"));
    const said = await rig.ok("hub", "restart");
    assert.match(said, /^Hub \d+ goes on for hub \d+ with 1 object, after \S+ m?s\.\n$/);
    await rig.ok("get", "x", rig.path("again.npy"));
  });

  it("names what was lost if hub and keeper are killed together", async () => {
    await using rig = await CliRig.open();
    await writeFile(rig.path("x.npy"), npy([1, 2, 3]));
    await rig.ok("put", "x", rig.path("x.npy"));
    await killHub(rig.folder);
    await using _hub = await rig.join();
    assert.match(await rig.ok("hub", "status"), /^lost +"x", 4 KiB on host, made by process \d+ of \S+, \d+ s ago$/m);
    assert.match(await rig.fails("NOT_FOUND", "inspect", "x"), /it was lost at .*, when hub and keeper ended together/);
  });

  it("says that a hub without a keeper cannot be restarted", async () => {
    await using rig = await CliRig.open();
    const hub = HubServer.start({ socket: rig.socket });
    try {
      assert.match(await rig.fails("NO_KEEPER", "hub", "restart"), /no keeper or service manager would start the next/);
    } finally {
      hub.stop();
    }
    assert.match(await rig.ok("hub", "restart"), /^No hub runs at /);
  });

  it("says what is in the place of its socket", async () => {
    await using rig = await CliRig.open();
    await writeFile(rig.socket, "");
    const words = `${rig.socket} is there, but it is not a socket`;
    assert.equal(await rig.ok("ls"), `Nothing is shared: ${words}.\n`);
    assert.equal(await rig.ok("hub", "status"), `No hub runs: ${words}.\n`);
    assert.equal(await rig.ok("hub", "stop"), `No hub runs: ${words}.\n`);
  });

  it("leaves the socket of another program in its place", async () => {
    await using rig = await CliRig.open();
    const other = createServer().listen(rig.socket);
    try {
      await once(other, "listening");
      const words = await rig.fails("HUB_UNAVAILABLE", "hub", "serve");
      assert.match(words, /a socket of another kind is there/);
      assert.match(words, /hint: Move it away, or set CUDA_IPC_SOCKET/);
      assert.equal(existsSync(rig.socket), true);
      assert.match(await rig.fails("SYSTEM_ERROR", "ls"), /EPROTOTYPE.*\n.*hint: A socket of another program is there/);
    } finally {
      other.close();
    }
  });

  for (const [program, ...words] of HUBS) {
    it(`goes on where what it says cannot be written (${program})`, async () => {
      await using rig = await CliRig.open();
      const full = openSync("/dev/full", "w");
      try {
        const args = [fileURLToPath(new URL(program, import.meta.url)), ...words, "--socket", rig.socket];
        const hub = spawn(process.execPath, [...args, "--idle-ms", "1"], { stdio: ["ignore", full, full] });
        assert.deepEqual(await once(hub, "exit"), [0, null]);
      } finally {
        closeSync(full);
      }
    });
  }

  it("refuses to serve where a hub runs", async () => {
    await using rig = await CliRig.open();
    await using _hub = await rig.join();
    await rig.fails("HUB_RUNNING", "hub", "serve");
  });

  it("tells its status without starting one", async () => {
    await using rig = await CliRig.open();
    assert.deepEqual(await rig.json("hub", "status"), { running: false, socket: rig.socket });
    assert.equal(existsSync(rig.socket), false);
    await using hub = await rig.join();
    using _array = await hub.create("x", { dtype: "int8", shape: [5000] });
    const status = await rig.json<Record<string, unknown>>("hub", "status");
    assert.deepEqual(
      [status.running, status.clients, status.objects, status.hostBytes, status.socket],
      [true, 1, 1, 8192, rig.socket],
    );
    assert.match(await rig.ok("hub", "status"), /^hub +process \d+, version /);
  });

  it("is said not to answer where it is there, but stopped", async () => {
    await using rig = await CliRig.open();
    const served = rig.start("hub", "serve", "--stay");
    await firstLine(served);
    served.child.kill("SIGSTOP");
    try {
      assert.match(await rig.fails("TIMEOUT", "ls"), /hint: The hub does not answer; .+kill -9/);
    } finally {
      served.child.kill("SIGCONT");
    }
  });

  it("stops, but not while it is used, unless it is forced to", async () => {
    await using rig = await CliRig.open();
    assert.match(await rig.ok("hub", "stop"), /^No hub runs at /);
    await using hub = await rig.join();
    await rig.fails("HUB_IN_USE", "hub", "stop");
    const ended = new Promise((resolve) => hub.onEnd(resolve));
    assert.match(await rig.ok("hub", "stop", "--force"), /^Ended hub \d+ at /);
    await ended;
    assert.match(await rig.ok("hub", "status"), /^No hub runs at /);
  });
});
