/** A timeout names the process or the name that was waited for. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect } from "../../../src/client/connect.js";
import { serve } from "../../../src/service/service.js";
import { connectService } from "../../../src/service/service-client.js";
import { checkLeaks } from "../../support/leak-check.js";
import { patientExplanations } from "../../support/patient-explanations.js";
import { ScriptedHub } from "../../support/scripted-hub.js";
import { TestFolder } from "../../support/test-folder.js";
import { TestHub } from "../../support/test-hub.js";
import { untilRejects } from "../../support/until.js";

const ITEM = { dtype: "int8", shape: [1] } as const;

interface Late {
  readonly timeoutMs: number;
}

const timeout = (words: RegExp) => ({ code: "TIMEOUT", message: words });

function untilLate(words: RegExp, call: (late: Late) => Promise<unknown>): Promise<void> {
  return untilRejects(timeout(words), (timeoutMs) => call({ timeoutMs }));
}

describe("an open that times out", () => {
  checkLeaks();
  patientExplanations();

  it("says that no process created the name", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const words = new RegExp(
      '^Cannot open "frame": not done within \\d+ ms; no process has created "frame"; ' +
        `the hub is at ${testHub.socket}$`,
    );
    await untilLate(words, (late) => hub.open("frame", late));
    await untilLate(words, (late) => hub.openChannel("frame", late));
    assert.equal((await hub.status()).waitingOpens, 0);
  });

  it("names the process that created it but did not publish it, like NOT_FOUND", async () => {
    await using testHub = await TestHub.start();
    await using producer = await testHub.connect({ program: "producer.js" });
    await using hub = await testHub.connect();
    using _made = await producer.create("frame", ITEM);
    const found = `process ${process.pid} \\(producer\\.js\\) created it and has not published it yet`;
    const words = new RegExp(`not done within \\d+ ms; ${found}`);
    await untilLate(words, (late) => hub.open("frame", late));
    await assert.rejects(hub.open("frame", { wait: false }), {
      code: "NOT_FOUND",
      message: new RegExp(`^Cannot open "frame": ${found}`),
    });
  });

  it("is ABORTED at once by its signal", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const controller = new AbortController();
    const opening = assert.rejects(hub.open("frame", { signal: controller.signal }), {
      code: "ABORTED",
    });
    controller.abort();
    await opening;
  });
});

describe("a hub that does not answer", () => {
  checkLeaks();

  it("is named in the error, with what was found instead", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const stopped = new RegExp(
      `; the hub \\(process ${testHub.pid}\\) does not answer: it is stopped \\(.+\\); the hub is at ${testHub.socket}$`,
    );
    const connecting = /; the hub \(process \d+\) does not answer: it is stopped \(.+\)$/;
    using made = await hub.create("made", ITEM);
    testHub.kill("SIGSTOP");
    try {
      const serving = (late: Late) => serve(hub, "serve.it", { request: ITEM, ...late }, () => {});
      const calls: readonly ((late: Late) => Promise<unknown>)[] = [
        (late) => hub.list(late),
        (late) => hub.open("frame", late),
        (late) => hub.create("frame", { ...ITEM, ...late }),
        (late) => hub.put("frame", new Int8Array(1), late),
        (late) => hub.createChannel("frame", { ...ITEM, ...late }),
        (late) => hub.createTimeline("frame", late),
        (late) => made.publish(late),
        (late) => hub.inspect("frame", late),
        (late) => hub.remove("frame", late),
        (late) => hub.status(late),
        (late) => hub.stop(late),
        serving,
      ];
      for (const call of calls) await untilLate(stopped, call);
      await untilLate(/Cannot \w+ "serve\.it" \(worker \w+\):/, serving);
      await untilLate(connecting, (late) => testHub.connect(late));
    } finally {
      testHub.kill("SIGCONT");
    }
  });

  it("is named by waits for readers and for workers", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using writer = await hub.createChannel("frames", ITEM);
    await using client = connectService(hub, "nobody");
    const named = new RegExp(`; the hub is at ${testHub.socket}$`);
    await untilLate(named, (late) => writer.waitForReaders(1, late));
    await untilLate(named, (late) => client.request(undefined, late));
  });

  it("is reported as gone while no other hub has replaced it", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect({ reconnectTimeoutMs: 60_000 });
    await testHub.killWithKeeper();
    const words =
      /; the connection to the hub at .+ ended, and no other was made: none listens there$/;
    await untilRejects(timeout(words), (timeoutMs) => hub.list({ timeoutMs }));
  });

  it("is counted each time that it ends before answering", async () => {
    using folder = new TestFolder();
    using _hub = new ScriptedHub(folder.socket, (_request, connection) => {
      const error = { code: "HUB_GONE", message: "Stopped" };
      connection.sendText(JSON.stringify({ v: 1, id: 0, ok: false, error }));
      return undefined;
    });
    const words = /; \d+ times a hub ended there before it answered; .+\.log may say why$/;
    await untilRejects(timeout(words), (timeoutMs) =>
      connect({ socket: folder.socket, start: false, timeoutMs }),
    );
  });
});
