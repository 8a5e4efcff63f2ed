/** What a bridge refuses, with a code and a remedy, and what it leaves behind: nothing. */

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Kvm } from "@nats-io/kv";
import { connect } from "@nats-io/transport-node";
import type { Hub } from "../../../src/client/hub.js";
import { SeqpacketSocket } from "../../../src/os/seqpacket.js";
import { encodeRecord, machineKey, nameKey } from "../../../src/wire/machine-records.js";
import { MACHINES_VERSION } from "../../../src/wire/machines-version.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { TestMachine } from "../../support/machines/test-machine.js";
import { TestNats } from "../../support/machines/test-nats.js";
import { slowCopies } from "../../support/machines/until-copying.js";
import { hostArray } from "../../support/messages.js";
import { until } from "../../support/until.js";

const isSkipped = skipWithoutEngines;

describe("a bridge", { skip: isSkipped }, () => {
  let nats: TestNats;
  let machine: TestMachine;
  let hub: Hub;

  before(async () => {
    nats = await TestNats.start();
    machine = await TestMachine.start("one", nats, { args: ["--announce", "*"] });
    hub = await machine.connect();
  });
  after(async () => {
    await hub?.close();
    await machine?.[Symbol.asyncDispose]();
    await nats?.[Symbol.asyncDispose]();
  });

  /** Writes to the bucket as another bridge would. */
  async function claim(name: string, fields: object): Promise<void> {
    const connection = await connect({ servers: nats.url });
    const bucket = await new Kvm(connection).open("cuda-ipc");
    const instance = "01234567-89ab-4def-8123-456789abcdef";
    const record = {
      v: MACHINES_VERSION,
      machine: "liar",
      instance,
      place: "there",
      ucx: "1.22.0",
      ready: true,
    };
    await bucket.put(machineKey("liar"), encodeRecord(record as never));
    const announced = {
      v: MACHINES_VERSION,
      name,
      machine: "liar",
      object: 5,
      sharedWith: "private",
      createdAtMs: 1,
      descriptor: hostArray,
      ...fields,
    };
    await bucket.put(nameKey(name), encodeRecord(announced as never));
    await connection.close();
  }

  it("is one for each hub", async () => {
    const more = ["--machine", "two", "--nats", nats.url, "--socket", machine.hub.socket];
    const { code, error } = await machine.run("bridge", ...more);
    assert.equal(code, 1);
    assert.match(error, /error\[BRIDGE_RUNNING\]: .*another bridge listens at .*hub\.sock\.bridge/);
    assert.match(error, /hint: Use that one, or end it\./);
  });

  it("needs a name of its own, NATS with JetStream, a login, and its address", async () => {
    await using silent = await TestNats.start([]);
    await using closed = await TestNats.start(["-js", "--auth", "secret"]);
    await using other = await TestMachine.start("other", nats);
    other.signalBridge("SIGTERM");
    await other.bridgeEnded();
    const failure = async (url: string, ...more: readonly string[]) => {
      const socket = ["--socket", other.hub.socket];
      const args = ["--machine", "other", "--nats", url, ...socket, ...more];
      const { code, error } = await other.run("bridge", ...args);
      assert.notEqual(code, 0);
      return error;
    };
    assert.match(await failure(silent.url), /error\[NATS_UNAVAILABLE\]: .*\n.*-js/);
    assert.match(await failure(closed.url), /error\[NATS_UNAVAILABLE\]: .*[Aa]uthoriz/);
    assert.match(await failure("nats://127.0.0.1:1"), /error\[NATS_UNAVAILABLE\]/);
    assert.match(await failure(nats.url, "--machine", "one"), /error\[BRIDGE_RUNNING\]: .*"one"/);
    assert.match(await failure(nats.url, "--machine", "a b"), /error\[USAGE\]/);
    assert.match(await failure(nats.url, "--bucket", "a.b"), /error\[USAGE\]/);
    assert.match(await failure(nats.url, "--domain", "a.b"), /error\[USAGE\]: --domain takes/);
    const connection = await connect({ servers: nats.url });
    await new Kvm(connection).create("foreign");
    await connection.close();
    assert.match(
      await failure(nats.url, "--bucket", "foreign"),
      /Another program made this bucket/,
    );
    assert.match(await failure(nats.url, "--creds", "/no/file"), /\/no\/file/);
    assert.match(await failure(nats.url, "--token", "x"), /--token is refused.+NATS_TOKEN/);
    process.env.CUDA_IPC_NATS_TOKEN = "secret";
    try {
      other.startBridge(["--nats", closed.url]);
      await other.bridged();
    } finally {
      delete process.env.CUDA_IPC_NATS_TOKEN;
    }
  });

  it("says which engine is missing, and how to get it", async () => {
    const env = { ...process.env, CUDA_IPC_UCX: "/no/libucp.so.0" };
    const before = process.env.CUDA_IPC_UCX;
    await using other = await TestMachine.start("other", nats);
    other.signalBridge("SIGTERM");
    await other.bridgeEnded();
    process.env.CUDA_IPC_UCX = env.CUDA_IPC_UCX;
    try {
      const socket = ["--socket", other.hub.socket];
      const { error } = await other.run("bridge", "--nats", nats.url, ...socket);
      assert.match(error, /error\[ENGINE_NOT_FOUND\]: .*\/no\/libucp\.so\.0/);
      assert.match(error, /pip install libucx-cu13/);
    } finally {
      if (before === undefined) delete process.env.CUDA_IPC_UCX;
      else process.env.CUDA_IPC_UCX = before;
    }
  });

  it("is asked for by `from: any`, and BRIDGE_UNAVAILABLE says if there is none", async () => {
    await using other = await TestMachine.start("other", nats);
    await using hubOfOther = await other.connect();
    await other.killBridge();
    for (const wait of [true, false]) {
      const opening = hubOfOther.open("x", { from: "any", wait });
      await assert.rejects(opening, { code: "BRIDGE_UNAVAILABLE", remedy: /cuda-ipc bridge/ });
    }
    assert.deepEqual(await hubOfOther.list(), []);
  });

  it("finds that a machine which it cannot ask is gone, or that it lies", async () => {
    await claim("lie", {});
    const opening = hub.open("lie", { from: "any", wait: false });
    await assert.rejects(opening, { code: "PEER_GONE", message: /link\.01234567/ });
    await claim("odd", { descriptor: { ...hostArray, byteLength: 10 ** 6 } });
    await machine.says('Cannot use "odd" of liar');
    await assert.rejects(hub.open("odd", { from: "any", wait: false }), { code: "NOT_FOUND" });
    await claim("version", { v: 9 });
    await machine.says('the bridge of machine "liar" speaks version 9');
    assert.deepEqual(await hub.list(), []);
  });

  it("refuses processes that break the rules of its socket, and serves the others", async () => {
    const path = `${machine.hub.socket}.bridge`;
    const answer = async (...messages: readonly unknown[]) => {
      const socket = SeqpacketSocket.connect(path);
      try {
        for (const message of messages)
          socket.trySend(
            typeof message === "string"
              ? Buffer.from(message)
              : Buffer.from(JSON.stringify(message)),
          );
        let text = "";
        await until("the bridge answers", () => {
          const packet = socket.tryReceive();
          if (packet === "end") return true;
          if (packet !== undefined) text += Buffer.from(packet.bytes).toString();
          return text.includes("error");
        });
        return text;
      } finally {
        socket.close();
      }
    };
    const bad = [
      ["not json"],
      [{ v: 1, op: "next" }],
      [{ v: 2, op: "status" }],
      [{ v: 1, op: "pull", name: 5, wait: true }],
      [{ v: 1, op: "pull", name: "x", wait: true, more: 1 }],
      [{ v: 1, op: "pull", name: "x".repeat(5000), wait: true }],
    ];
    for (const messages of bad) assert.match(await answer(...messages), /"ok":false/);
    const pull = { v: 1, op: "pull", name: "nothing", wait: true };
    assert.match(await answer(pull, pull), /another pull is under way/);
    assert.match(await answer({ ...pull, name: "../x" }), /INVALID_NAME/);
    assert.equal((await machine.run("bridge", "status")).code, 0);
  });

  it("keeps to the quota of its hub, and to the memory of its machine", async () => {
    const config = { limits: { user: { hostBytes: 1_000_000 } } };
    await using small = await TestMachine.start("small", nats, { hub: { config } });
    await using hubOfSmall = await small.connect();
    using _original = await hub.put("big", new Uint8Array(2_000_000));
    const opening = hubOfSmall.open("big", { from: "any" });
    await assert.rejects(opening, { code: "LIMIT_EXCEEDED", message: /hostBytes/ });
    assert.deepEqual(await hubOfSmall.list(), []);
  });

  it("finds bytes that change while they are copied", async () => {
    // Slow, so that bytes change in each piece also while other programs keep this one waiting.
    const sends = { args: ["--announce", "*"], env: slowCopies };
    await using other = await TestMachine.start("other", nats, sends);
    await using hubOfOther = await other.connect();
    using original = await hubOfOther.put("moving", new Uint8Array(64 * 1024 * 1024));
    await other.says('announced: "moving"');
    const view = original.buffer.view();
    let isOver = false;
    const change = () => {
      for (let i = 0; i < view.byteLength; i += 65_536) view[i] = ((view[i] ?? 0) + 1) % 251;
      if (!isOver) setImmediate(change);
    };
    change();
    try {
      const opening = hub.open("moving", { from: "any" });
      await assert.rejects(opening, { code: "VERIFICATION_FAILED", message: /came different 5/ });
    } finally {
      isOver = true;
    }
    assert.deepEqual(await hub.list({ prefix: "moving" }), []);
  });
});
