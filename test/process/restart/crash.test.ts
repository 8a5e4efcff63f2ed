import assert from "node:assert/strict";
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { HubServer } from "../../../src/hub/server/hub-server.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { RawClient } from "../../support/raw-client.js";
import { TestFolder } from "../../support/test-folder.js";
import { soon, until } from "../../support/until.js";
import { HubRig } from "./hub-rig.js";

const PRODUCES = new URL("../hub/actors/produces.js", import.meta.url);

async function kill(actor: Actor): Promise<void> {
  actor.kill("SIGKILL");
  await actor.exited();
}

describe("a hub after one that was killed", () => {
  checkLeaks();

  it("reuses no number", async () => {
    await using rig = new HubRig();
    const numbers: number[] = [];
    for (let round = 0; round < 3; round += 1) {
      const hub = await rig.serving();
      const client = await rig.connect();
      const array = await client.create(`frame-${round}`, { dtype: "uint8", shape: [1] });
      numbers.push(array.object);
      // Created last, and for clients that hold nothing, so the journal does not know these
      // numbers.
      for (let count = 0; count < 5; count += 1) {
        using raw = await RawClient.connect(rig.folder.socket, false);
        const hello = await raw.ask({ op: "hello", client: { version: "0", program: "raw" } });
        numbers.push(Number(hello.result?.session));
      }
      await kill(hub);
      array.close();
      await client.close().catch(() => {});
    }
    assert.deepEqual(
      numbers,
      [...numbers].sort((one, other) => one - other),
    );
    assert.equal(new Set(numbers).size, numbers.length);
  });

  it("releases the leases of a process that died while no hub ran, and keeps others", async () => {
    await using rig = new HubRig();
    const first = await rig.serving();
    const args = (name: string) => ({ args: [rig.folder.socket, name, "held", "publish", "10"] });
    await using gone = new Actor(PRODUCES, args("gone"));
    await using stays = new Actor(PRODUCES, args("stays"));
    await gone.says();
    await stays.says();
    await kill(first);
    await kill(gone);
    const second = await rig.serving();
    assert.match(second.complaint, /an earlier hub left 2 objects of 2 clients; kept: 1/);
    const hub = await rig.connect();
    assert.deepEqual(
      (await hub.list()).map(({ name }) => name),
      ["stays"],
    );
    await kill(stays);
    await until("its holder's end is noticed", async () => (await hub.list()).length === 0);
    await hub.close();
  });

  it("finds nothing after an orderly end", async () => {
    await using rig = new HubRig();
    const first = await rig.serving();
    const hub = await rig.connect();
    const array = await hub.create("frame", { dtype: "uint8", shape: [1] });
    assert.ok(existsSync(`${rig.folder.socket}.journal`));
    const told = new Promise<unknown>((resolve) => hub.onEnd(resolve));
    first.kill("SIGTERM");
    assert.match(String(await soon("the end is told", told)), /The hub was stopped/);
    assert.equal(await first.exited(), 0);
    assert.equal(existsSync(`${rig.folder.socket}.journal`), false);
    array.close();
    await hub.close().catch(() => {});
  });

  it("does not start if it cannot read the journal, and leaves the file there", () => {
    using folder = new TestFolder();
    mkdirSync(`${folder.socket}.journal`);
    assert.throws(
      () => HubServer.start({ socket: folder.socket }),
      (error) => hasCode(error, "HUB_UNAVAILABLE"),
    );
    assert.ok(existsSync(`${folder.socket}.journal`));
    rmSync(`${folder.socket}.journal`, { recursive: true });
    HubServer.start({ socket: folder.socket }).stop();
  });
});
