import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { hasCode } from "../../../src/base/errors.js";
import { DeviceArray } from "../../../src/gpu/arrays/device-array.js";
import { Device } from "../../../src/gpu/device.js";
import { readHandleFile } from "../../../src/peer/handle-file.js";
import { openShared } from "../../../src/peer/open-shared.js";
import { share } from "../../../src/peer/share.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestRuntime } from "../../support/test-runtime.js";
import { soon } from "../../support/until.js";

const FORKED = fileURLToPath(new URL("./actors/forked.js", import.meta.url));
const SHARES = new URL("./actors/shares-file.js", import.meta.url);
const OPENS = new URL("./actors/opens-file.js", import.meta.url);

async function kill(actor: Actor): Promise<void> {
  actor.kill("SIGKILL");
  await actor.exited();
}

describe("messages of child_process.fork", () => {
  checkLeaks();

  async function answerOf(child: ChildProcess): Promise<unknown> {
    const ended = once(child, "exit").then(([code]) => {
      throw new Error(`the child ended with ${code} and no answer`);
    });
    const [answer] = await soon("the child answers", Promise.race([once(child, "message"), ended]));
    ended.catch(() => {});
    return answer;
  }

  for (const serialization of ["json", "advanced"] as const) {
    it(`carry arrays both ways (${serialization})`, async () => {
      using _runtime = new TestRuntime();
      using device = Device.open("host");
      using array = DeviceArray.allocate(device, { dtype: "float32", shape: [1024] });
      await array.write(Float32Array.from({ length: 1024 }, (_, i) => i + 100));
      using shared = share(array);
      const env = { ...process.env };
      delete env.NODE_TEST_CONTEXT;
      const child = fork(FORKED, { serialization, env });
      try {
        const exited = once(child, "exit");
        child.send(shared.document);
        const answer = await answerOf(child);
        const document =
          serialization === "json" ? answer : (answer as { document: unknown }).document;
        using opened = (await openShared(document)).expectDType("float32");
        child.send("opened");
        assert.deepEqual(await soon("the child ends", exited), [0, null]);
        assert.deepEqual([(await array.read())[0], (await array.read())[1023]], [-100, -1123]);
        const values = await opened.read();
        assert.deepEqual([values[0], values[1023]], [100, 1123], "the memory outlives the child");
        await assert.rejects(openShared(document), (error) => hasCode(error, "PEER_GONE"));
      } finally {
        child.kill("SIGKILL");
      }
    });
  }
});

describe("handle files between processes", () => {
  checkLeaks();

  it("are waited for by an early consumer, whose memory outlives the exporter", async () => {
    using runtime = new TestRuntime();
    const path = runtime.file("frame.json");
    await using consumer = new Actor(OPENS, { args: [path, "refuse"] });
    assert.equal(await consumer.says(), "here");
    await using producer = new Actor(SHARES, { args: [path, "42"] });
    assert.equal(await consumer.says(), 42);
    await kill(producer);
    consumer.goOn();
    assert.equal(await consumer.says(), 42 + 999);
  });

  it("of a killed exporter are refused, or waited for until another writes them", async () => {
    using runtime = new TestRuntime();
    const path = runtime.file("frame.json");
    await using killed = new Actor(SHARES, { args: [path, "1"] });
    const { socket } = (await killed.says()) as { socket: string };
    const document = JSON.parse(JSON.stringify(await readHandleFile(path)));
    await kill(killed);
    await assert.rejects(readHandleFile(path), (error) => hasCode(error, "PEER_GONE"));
    await assert.rejects(openShared(document), (error) => hasCode(error, "PEER_GONE"));
    assert.ok(existsSync(socket), "its socket is still there");
    await using refusing = new Actor(OPENS, { args: [path, "refuse"] });
    await using waiting = new Actor(OPENS, { args: [path, "wait"] });
    assert.deepEqual([await refusing.says(), await refusing.says()], ["here", "PEER_GONE"]);
    assert.equal(await waiting.says(), "here");
    await using next = new Actor(SHARES, { args: [path, "7"] });
    assert.equal(await waiting.says(), 7);
    await next.says();
    assert.equal(existsSync(socket), false, "the next exporter removes the socket of the dead one");
    await assert.rejects(openShared(document), (error) => hasCode(error, "PEER_GONE"));
  });

  it("keep no exporter alive, and its socket is removed when it ends", async () => {
    using runtime = new TestRuntime();
    await using producer = new Actor(SHARES, { args: [runtime.file("frame.json"), "1"] });
    const { socket } = (await producer.says()) as { socket: string };
    assert.ok(existsSync(socket));
    producer.goOn();
    assert.equal(await producer.exited(), 0);
    assert.deepEqual(runtime.names(), ["frame.json"]);
  });

  it("leave no socket if the exporter ends without closing anything", async () => {
    using runtime = new TestRuntime();
    await using producer = new Actor(new URL("./actors/shares-and-exits.js", import.meta.url));
    assert.equal(await producer.says(), 1);
    assert.equal(await producer.exited(), 0);
    assert.deepEqual(runtime.names(), []);
  });
});
