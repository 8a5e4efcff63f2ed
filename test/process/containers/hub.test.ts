/**
 * All kinds of objects on a hub, between two containers that share only the folder of its socket.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { Actor } from "../../support/actor.js";
import { inContainer, skipWithoutContainers } from "../../support/container.js";
import { checkLeaks } from "../../support/leak-check.js";
import { shareAll } from "../../support/share-all.js";
import { TestFolder } from "../../support/test-folder.js";
import { TestHub } from "../../support/test-hub.js";
import { soon, until } from "../../support/until.js";

const LAUNCH = fileURLToPath(new URL("../../../src/cli/launch.cjs", import.meta.url));
const WRITES = new URL("../channels/actors/writes.js", import.meta.url);
const READS = new URL("../channels/actors/reads.js", import.meta.url);
const WORKER = new URL("../service/actors/worker.js", import.meta.url);
const CLIENT = new URL("../service/actors/client.js", import.meta.url);

function container(hub: TestHub, program: URL, ...args: string[]): Actor {
  return new Actor(program, { args: [hub.socket, ...args], within: inContainer(hub.folder.path) });
}

async function kill(actor: Actor): Promise<void> {
  actor.kill("SIGKILL");
  await actor.exited();
}

async function command(hub: TestHub, ...args: string[]): Promise<string> {
  const [unshare = "", ...rest] = [
    ...inContainer(hub.folder.path),
    process.execPath,
    LAUNCH,
    ...args,
  ];
  const env = { ...process.env, CUDA_IPC_SOCKET: hub.socket, CUDA_IPC_DEVICE: "host" };
  const child = spawn(unshare, rest, { env, stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (part: Buffer) => (text += part.toString()));
  const [code] = (await soon("the command ends", once(child, "close"))) as [number];
  assert.equal(code, 0, text);
  return text;
}

const places = {
  "on the host": () => TestHub.start(),
  "in a third container, which sees neither's pid": () =>
    TestHub.start({ folder: new TestFolder(), within: (path) => inContainer(path) }),
};

for (const [place, start] of Object.entries(places)) {
  describe(`two containers with a hub ${place}`, { skip: skipWithoutContainers }, () => {
    checkLeaks();

    it("share all kinds of objects, and a container's leases end with it", async () => {
      await using hub = await start();
      await shareAll((program) => container(hub, program, "host"));
    });

    it("use channels; a killed reader frees its slots, a killed writer loses nothing", async () => {
      await using hub = await start();
      await using writer = container(
        hub,
        WRITES,
        "channel",
        "create",
        JSON.stringify({ slots: 4 }),
      );
      await writer.says();
      await using holder = container(hub, READS, "channel", JSON.stringify({ hold: 4 }));
      await using reader = container(hub, READS, "channel", JSON.stringify({}));
      for (const actor of [holder, reader]) assert.equal(await actor.says(), "here");
      writer.goOn("send 20");
      await kill(holder);
      assert.deepEqual(await writer.says(), { committed: 20, dropped: 0 });
      await kill(writer);
      const said = await reader.says();
      const wanted = { end: "PEER_GONE", first: 0, next: 20, received: 20, missed: 0, wrong: 0 };
      assert.deepEqual(said, wanted);
    });

    it("offer and use a service", async () => {
      await using hub = await start();
      await using worker = container(hub, WORKER, "double", JSON.stringify({}));
      assert.deepEqual(await worker.says(), { ready: true });
      await using client = container(hub, CLIENT, "double");
      assert.deepEqual(await client.says(), { ready: true });
      client.goOn(JSON.stringify({ op: "double", id: 7, timeoutMs: 25_000 }));
      assert.deepEqual(((await client.says()) as { id: number }).id, 7);
    });

    it("put in one and get in the other on the command line", async () => {
      await using hub = await start();
      const source = fileURLToPath(
        new URL("../../../../test/fixtures/npy/float32.npy", import.meta.url),
      );
      await command(hub, "put", "model", source);
      assert.match(await command(hub, "ls"), /model/);
      await command(hub, "get", "model", hub.folder.file("model.npy"));
      await command(hub, "rm", "model");
      await using onHost = await hub.connect();
      await until("it is gone", async () => (await onHost.list()).length === 0);
    });
  });
}
