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
import { HubServer } from "../../../src/hub/server/hub-server.js";
import { killHub } from "../../support/test-folder.js";
import { CliRig, type Started } from "./cli-rig.js";

/** The hub as a user runs it, and as a client starts it. */
const HUBS = [
  ["../../../src/cli/launch.cjs", "hub", "serve"],
  ["../../../src/hub/main.js"],
] as const;

/** Resolves with the first line that a hub in the foreground prints, when it listens. */
async function firstLine({ child }: Started): Promise<string> {
  assert.ok(child.stdout !== null);
  const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  return line;
}

function npy(values: readonly number[]): Buffer {
  return Buffer.concat([
    encodeNpyHeader("int32", [values.length]),
    new Uint8Array(Int32Array.from(values).buffer),
  ]);
}

describe("cuda-ipc hub", () => {
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    it(`serves until ${signal}, and removes its socket`, async () => {
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

  it("serves at the given socket until it is idle", async () => {
    await using rig = await CliRig.open();
    const socket = rig.path("other.sock");
    const served = rig.start("hub", "serve", "--socket", socket, "--idle-ms", "1");
    assert.match(await firstLine(served), /listens at .*other\.sock/);
    const { code, stdout } = await served.outcome;
    assert.equal(code, 0);
    assert.match(stdout, /no clients and no objects for 1 ms\n.*hub ended\n$/);
  });

  it("reports that the last hub was killed", async () => {
    await using rig = await CliRig.open();
    const served = rig.start("hub", "serve", "--stay");
    await firstLine(served);
    await killHub(rig.folder);
    await served.outcome;
    const words = `the hub at ${rig.socket} was killed; the next hub restores what processes still hold`;
    assert.equal(await rig.ok("ls"), `Nothing is shared: ${words}.\n`);
    assert.match(await rig.statusWithoutHub(), new RegExp(`^No hub runs: ${words}\\. One starts `));
    assert.ok((await rig.ok("hub", "stop")).includes(words));
    assert.ok((await rig.fails("NOT_FOUND", "inspect", "x")).includes(words));
    assert.deepEqual(JSON.parse(await rig.statusWithoutHub("--json")), {
      running: false,
      socket: rig.socket,
    });
    await using _hub = await rig.join();
    assert.equal(await rig.ok("ls"), "Nothing is shared.\n");
  });

  it("counts processes that are still away after a crash, and objects without memory", async () => {
    await using rig = await CliRig.open();
    const first = rig.start("hub", "serve", "--stay");
    await firstLine(first);
    await using hub = await connect({ socket: rig.socket, device: "host", reconnect: false });
    using _array = await hub.create("x", { dtype: "int8", shape: [8] });
    assert.doesNotMatch(await rig.ok("hub", "status"), /not connected|without memory/);
    await killHub(rig.folder);
    await first.outcome;
    await firstLine(rig.start("hub", "serve", "--stay"));
    const status = await rig.ok("hub", "status");
    assert.match(
      status,
      /^clients +0 \(without this command\), and 1 not connected, but holding something$/m,
    );
    assert.match(status, /^ +1 without memory until a process that holds it reconnects$/m);
  });

  it("keeps put arrays when it is killed; restart prints how long it took", async () => {
    await using rig = await CliRig.open();
    await writeFile(rig.path("x.npy"), npy([1, 2, 3]));
    await rig.ok("put", "x", rig.path("x.npy"));
    const { pid, keeper } = await rig.json<{ pid: number; keeper: { pid: number } }>(
      "hub",
      "status",
    );
    process.kill(pid, "SIGKILL");
    assert.match(await rig.ok("ls"), /^x /m);
    await rig.ok("get", "x", rig.path("copy.npy"));
    assert.deepEqual(await readFile(rig.path("copy.npy")), await readFile(rig.path("x.npy")));
    const status = await rig.ok("hub", "status");
    assert.match(
      status,
      new RegExp(`^keeper +process ${keeper.pid}, keeps 3 descriptors for the next hub$`, "m"),
    );
    const said = await rig.ok("hub", "restart");
    assert.match(said, /^Hub \d+ replaced hub \d+ in \S+ m?s and keeps 1 object\.\n$/);
    await rig.ok("get", "x", rig.path("again.npy"));
  });

  it("names lost objects if hub and keeper are killed together", async () => {
    await using rig = await CliRig.open();
    await writeFile(rig.path("x.npy"), npy([1, 2, 3]));
    await rig.ok("put", "x", rig.path("x.npy"));
    await killHub(rig.folder);
    await using _hub = await rig.join();
    assert.match(
      await rig.ok("hub", "status"),
      /^lost +"x", 4 KiB on host, created by process \d+ of \S+, \d+ s ago$/m,
    );
    assert.match(
      await rig.fails("NOT_FOUND", "inspect", "x"),
      /it was lost at .*, when hub and keeper ended together/,
    );
  });

  it("refuses to restart a hub without a keeper", async () => {
    await using rig = await CliRig.open();
    const hub = HubServer.start({ socket: rig.socket });
    try {
      assert.match(
        await rig.fails("NO_KEEPER", "hub", "restart"),
        /no keeper or service manager would start the next/,
      );
    } finally {
      hub.stop();
    }
    assert.match(await rig.ok("hub", "restart"), /^No hub runs at /);
  });

  it("reports a file at its socket path", async () => {
    await using rig = await CliRig.open();
    await writeFile(rig.socket, "");
    const words = `the file at ${rig.socket} is not a socket`;
    assert.equal(await rig.ok("ls"), `Nothing is shared: ${words}.\n`);
    assert.equal(await rig.statusWithoutHub(), `No hub runs: ${words}.\n`);
    assert.equal(await rig.ok("hub", "stop"), `No hub runs: ${words}.\n`);
  });

  it("does not replace the socket of another program", async () => {
    await using rig = await CliRig.open();
    const other = createServer().listen(rig.socket);
    try {
      await once(other, "listening");
      const words = await rig.fails("HUB_UNAVAILABLE", "hub", "serve");
      assert.match(words, /a socket of another kind is there/);
      assert.match(words, /hint: Move that file away, or set CUDA_IPC_SOCKET/);
      assert.equal(existsSync(rig.socket), true);
      assert.match(
        await rig.fails("WRONG_KIND", "ls"),
        /EPROTOTYPE.*\n.*hint: Another program listens there/,
      );
    } finally {
      other.close();
    }
  });

  for (const [program, ...words] of HUBS) {
    it(`continues if its log cannot be written (${program})`, async () => {
      await using rig = await CliRig.open();
      const full = openSync("/dev/full", "w");
      try {
        const args = [
          fileURLToPath(new URL(program, import.meta.url)),
          ...words,
          "--socket",
          rig.socket,
        ];
        const hub = spawn(process.execPath, [...args, "--idle-ms", "1"], {
          stdio: ["ignore", full, full],
        });
        assert.deepEqual(await once(hub, "exit"), [0, null]);
      } finally {
        closeSync(full);
      }
    });
  }

  it("refuses to serve if a hub runs", async () => {
    await using rig = await CliRig.open();
    await using _hub = await rig.join();
    await rig.fails("HUB_RUNNING", "hub", "serve");
  });

  it("prints the status without starting a hub", async () => {
    await using rig = await CliRig.open();
    assert.deepEqual(JSON.parse(await rig.statusWithoutHub("--json")), {
      running: false,
      socket: rig.socket,
    });
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

  it("is reported as silent if its process is stopped", async () => {
    await using rig = await CliRig.open();
    const served = rig.start("hub", "serve", "--stay");
    await firstLine(served);
    served.child.kill("SIGSTOP");
    try {
      assert.match(await rig.fails("TIMEOUT", "ls"), /hint: If the hub stays silent, .+kill -9/);
    } finally {
      served.child.kill("SIGCONT");
    }
  });

  it("stops while it is in use only with --force", async () => {
    await using rig = await CliRig.open();
    assert.match(await rig.ok("hub", "stop"), /^No hub runs at /);
    await using hub = await rig.join();
    await rig.fails("HUB_IN_USE", "hub", "stop");
    const ended = new Promise((resolve) => hub.onEnd(resolve));
    assert.match(await rig.ok("hub", "stop", "--force"), /^Ended hub \d+ at /);
    await ended;
    assert.match(await rig.statusWithoutHub(), /^No hub runs at /);
  });
});
