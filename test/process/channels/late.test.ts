/** Timeouts of channels name the late readers or the writer. Also tests waitForReaders(). */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { checkLeaks } from "../../support/leak-check.js";
import { patientExplanations } from "../../support/patient-explanations.js";
import { TestHub } from "../../support/test-hub.js";
import { soon, until } from "../../support/until.js";
import { kill, startReader } from "./channel-rig.js";

const CHANNEL = { dtype: "uint32", shape: [64], slots: 2, readersMax: 4 } as const;
const LATE = { timeoutMs: 30 } as const;

const timeout = (message: RegExp | string) => ({ code: "TIMEOUT", message });

describe("loan() at its timeout", () => {
  checkLeaks();
  patientExplanations();

  it("names the slow readers and their processes", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using writer = await hub.createChannel("channel", CHANNEL);
    await using slow = await startReader(testHub.socket, { hold: 2 });
    using own = await hub.openChannel("channel");
    for (let sent = 0; sent < 2; sent += 1) {
      (await writer.loan()).commit();
      (await soon("a message", own.next()))?.release();
    }
    const process = `process ${slow.pid}, [^)]*reads\\.js`;
    const words = `; reader 0 \\(${process}\\) is 2 messages behind$`;
    const message = new RegExp(`^Cannot write to channel "channel": not done within 30 ms${words}`);
    await assert.rejects(writer.loan(LATE), timeout(message));
    await assert.rejects(writer.loan(LATE), timeout(message));
  });

  it("names readers by seat if no hub runs", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect({ reconnectTimeoutMs: 60_000 });
    using writer = await hub.createChannel("channel", { ...CHANNEL, slots: 1 });
    using _reader = await hub.openChannel("channel");
    (await writer.loan()).commit();
    await testHub.killWithKeeper();
    await assert.rejects(writer.loan(LATE), timeout(/; reader 0 is 1 message behind$/));
  });

  it('names readers that hold slots if whenFull is "drop-oldest"', async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect({ program: "viewer" });
    using writer = await hub.createChannel("channel", {
      ...CHANNEL,
      slots: 1,
      whenFull: "drop-oldest",
    });
    using reader = await hub.openChannel("channel");
    (await writer.loan()).commit();
    using _held = await soon("a message", reader.next());
    await assert.rejects(
      writer.loan(LATE),
      timeout(/; reader 0 \(process \d+, viewer, this process itself\) holds slots$/),
    );
  });
});

describe("next() at its timeout", () => {
  checkLeaks();

  it("says what its writer did last", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using writer = await hub.createChannel("channel", { ...CHANNEL, whenWriterGone: "wait" });
    using reader = await hub.openChannel("channel");
    await assert.rejects(
      reader.next(LATE),
      timeout(/; its writer has committed nothing more, 0 messages in all$/),
    );
    (await writer.loan()).commit();
    (await soon("a message", reader.next()))?.release();
    await assert.rejects(
      reader.next(LATE),
      timeout(/; its writer has committed nothing more, 1 message in all$/),
    );
    writer.close();
    await assert.rejects(
      reader.next(LATE),
      timeout(/; its writer is gone, and no other one has come yet$/),
    );
  });
});

describe("waitForReaders()", () => {
  checkLeaks();
  patientExplanations();

  it("resolves when there are enough readers, at once if there already are", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using writer = await hub.createChannel("channel", CHANNEL);
    await writer.waitForReaders(0);
    const both = soon("two readers", writer.waitForReaders(2));
    await using _one = await startReader(testHub.socket);
    assert.equal(writer.readers, 1);
    using _two = await hub.openChannel("channel");
    await both;
    await writer.waitForReaders(2, { timeoutMs: 0 });
    assert.equal(writer.readers, 2);
  });

  it("names in its TIMEOUT the readers that came", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using writer = await hub.createChannel("channel", CHANNEL);
    const at = `; the hub is at ${testHub.socket}$`;
    const none =
      'Cannot wait for 1 reader of channel "channel": not done within 30 ms; 0 of 1 came';
    await assert.rejects(writer.waitForReaders(1, LATE), timeout(new RegExp(`^${none}${at}`)));
    await using one = await startReader(testHub.socket);
    const found = `; 1 of 3 came: reader 0 \\(process ${one.pid}, [^)]*reads\\.js\\)`;
    await assert.rejects(writer.waitForReaders(3, LATE), timeout(new RegExp(`${found}${at}`)));
  });

  it("throws ABORTED, CLOSED, or a RangeError for more than readersMax", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using writer = await hub.createChannel("channel", CHANNEL);
    await assert.rejects(writer.waitForReaders(1, { signal: AbortSignal.abort() }), {
      code: "ABORTED",
    });
    await assert.rejects(
      writer.waitForReaders(5),
      /^RangeError: count must be an integer from 0 to 4, not 5/,
    );
    await assert.rejects(
      writer.waitForReaders("1" as never),
      /^TypeError: count must be an integer/,
    );
    const closed = assert.rejects(writer.waitForReaders(1), { code: "CLOSED" });
    writer.close();
    await closed;
    assert.equal(writer.readers, 0);
  });
});

describe("writer.readers", () => {
  checkLeaks();

  it("counts the attached readers, even before the next message", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using writer = await hub.createChannel("channel", CHANNEL);
    assert.equal(writer.readers, 0);
    const closed = await hub.openChannel("channel");
    await using killed = await startReader(testHub.socket);
    assert.equal(writer.readers, 2);
    closed.close();
    await until("one has left", () => writer.readers === 1);
    await kill(killed);
    await until("the other is dead", () => writer.readers === 0);
  });
});
