/** What the package publishes on node:diagnostics_channel. */
import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../src/base/errors.js";
import { ChannelReader } from "../../../src/channel/channel-reader.js";
import { ChannelWriter } from "../../../src/channel/channel-writer.js";
import { Hub } from "../../../src/client/hub.js";
import { SharedArray } from "../../../src/client/objects/shared-array.js";
import { SharedBundle } from "../../../src/client/objects/shared-bundle.js";
import type {
  CommitMessage,
  DisconnectMessage,
  HandleMessage,
  HubLostMessage,
  LoanMessage,
  OpenMessage,
  ReaderDiedMessage,
  ReceiveMessage,
  ReleaseMessage,
  WriterDiedMessage,
} from "../../../src/doors/diagnostics.js";
import { connectService, serve } from "../../../src/doors/service.js";
import { ServiceMessage } from "../../../src/service/service-message.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";
import { kill, startReader, startWriter } from "../channels/channel-rig.js";

const ARRAY = { dtype: "uint8", shape: [64] } as const;
const CHANNEL = { byteLength: 64, slots: 4 } as const;
const PHASES = ["start", "end", "asyncStart", "asyncEnd", "error"] as const;

/** Records everything that is published under a name until it is disposed. */
class Heard<Message> implements Disposable {
  readonly messages: Message[] = [];
  readonly #listeners: [string, (message: unknown) => void][] = [];

  static point<Message>(name: string): Heard<Message> {
    const heard = new Heard<Message>();
    heard.#listen(`cuda-ipc:${name}`, (message) => heard.messages.push(message as Message));
    return heard;
  }

  /** Each phase, with a copy of the message as it was then. */
  static operation(
    name: string,
  ): Heard<{ readonly phase: string; readonly [field: string]: unknown }> {
    const heard = new Heard<{ readonly phase: string }>();
    for (const phase of PHASES) {
      heard.#listen(`tracing:cuda-ipc:${name}:${phase}`, (message) => {
        heard.messages.push({ phase, ...(message as object) });
      });
    }
    return heard;
  }

  /** The fields of the messages that begin an operation. */
  get starts(): object[] {
    const messages = this.messages as readonly { readonly phase?: string }[];
    return messages.filter(({ phase }) => phase === "start").map(({ phase: _, ...rest }) => rest);
  }

  [Symbol.dispose](): void {
    for (const [name, listener] of this.#listeners) unsubscribe(name, listener);
  }

  #listen(name: string, listener: (message: unknown) => void): void {
    subscribe(name, listener);
    this.#listeners.push([name, listener]);
  }
}

describe("diagnostics of operations", () => {
  checkLeaks();

  it("tell of connect, create, publish and open, with what they return", async () => {
    await using testHub = await TestHub.start();
    using connected = Heard.operation("connect");
    using created = Heard.operation("create");
    using published = Heard.operation("publish");
    using opened = Heard.operation("open");
    await using hub = await testHub.connect();
    assert.deepEqual(
      connected.messages.map(({ phase, result }) => [phase, result instanceof Hub]),
      [
        ["start", false],
        ["end", false],
        ["asyncStart", true],
        ["asyncEnd", true],
      ],
    );
    assert.deepEqual(connected.starts, [{ socketPath: testHub.socket }]);

    using array = await hub.create("array", ARRAY);
    await array.publish();
    using bundle = await hub.createBundle("bundle", { part: ARRAY });
    await bundle.publish();
    using _timeline = await hub.createTimeline("timeline");
    using _channel = await hub.createChannel("channel", CHANNEL);
    using _put = await hub.put("put", new Uint8Array(8));
    assert.deepEqual(created.starts, [
      { name: "array", kind: "array", byteLength: 64 },
      { name: "bundle", kind: "bundle", byteLength: bundle.buffer.byteLength },
      { name: "timeline", kind: "timeline", byteLength: 64 },
      { name: "channel", kind: "channel", byteLength: 256 },
      { name: "put", kind: "array", byteLength: 8 },
    ]);
    const results = created.messages.filter(({ phase }) => phase === "asyncEnd");
    assert.ok(results[0]?.result === array && results[1]?.result === bundle);
    assert.deepEqual(
      published.starts.map((message) => (message as { readonly name: string }).name),
      ["array", "bundle", "timeline", "channel", "put"],
    );
    assert.deepEqual(published.starts[0], { name: "array", object: array.object });

    using _array = await hub.open("array", { access: "read-write" });
    using _bundle = await hub.openBundle("bundle");
    using _waits = await hub.openTimeline("timeline");
    using _reader = await hub.openChannel("channel");
    using _observer = await hub.observeChannel("channel");
    assert.deepEqual(opened.starts, [
      { name: "array", access: "read-write" },
      { name: "bundle", access: "read" },
      { name: "timeline", access: "read" },
      { name: "channel", access: "read", role: "reader" },
      { name: "channel", access: "read", role: "observer" },
    ] satisfies OpenMessage[]);
    const kinds = [SharedArray, SharedBundle, undefined, ChannelReader, undefined];
    for (const [index, { result }] of opened.messages
      .filter(({ phase }) => phase === "asyncEnd")
      .entries()) {
      const kind = kinds[index];
      if (kind !== undefined) assert.ok(result instanceof kind, kind.name);
    }
  });

  it("tell of an error, which the caller gets as well", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using opened = Heard.operation("open");
    await assert.rejects(hub.open("missing", { wait: false }), { code: "NOT_FOUND" });
    assert.deepEqual(
      opened.messages.map(({ phase, error }) => [phase, (error as CudaIpcError | undefined)?.code]),
      [
        ["start", undefined],
        ["end", undefined],
        ["error", "NOT_FOUND"],
        ["asyncStart", "NOT_FOUND"],
        ["asyncEnd", "NOT_FOUND"],
      ],
    );
  });

  it("tell of a request on both sides of a service", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using requested = Heard.operation("request");
    using handled = Heard.operation("handle");
    await using _service = await serve(hub, "echo", { request: { byteLength: 8 } }, (request) => {
      if (request.json === "throw") throw new TypeError("no");
      return { meta: request.json };
    });
    await using client = connectService(hub, "echo");
    {
      using reply = await client.request(undefined, { meta: { traced: 1 } });
      assert.deepEqual(reply.json, { traced: 1 });
    }
    await assert.rejects(client.request(undefined, { meta: "throw" }), { code: "REQUEST_FAILED" });
    assert.deepEqual(requested.starts, [{ name: "echo" }, { name: "echo" }]);
    const outcomes = (of: typeof requested) =>
      of.messages
        .filter(({ phase }) => phase === "asyncEnd")
        .map(({ result, error }) => [result, error]);
    const [[reply], [, failure]] = outcomes(requested) as [unknown[], unknown[]];
    assert.ok(reply instanceof ServiceMessage && failure instanceof CudaIpcError);
    const [[options], [, thrown]] = outcomes(handled) as [unknown[], unknown[]];
    assert.deepEqual(options, { meta: { traced: 1 } });
    assert.ok(thrown instanceof TypeError);
    const begun = handled.messages.filter(({ phase }) => phase === "start");
    assert.deepEqual(
      begun.map(({ name }) => name),
      ["echo", "echo"],
    );
    assert.ok((begun[0] as unknown as HandleMessage).request instanceof ServiceMessage);
  });
});

describe("diagnostics of channels", () => {
  checkLeaks();

  it("tell of each loan, commit, receive and release, with one slot on each side", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using loans = Heard.point<LoanMessage>("loan");
    using commits = Heard.point<CommitMessage>("commit");
    using receives = Heard.point<ReceiveMessage>("receive");
    using releases = Heard.point<ReleaseMessage>("release");
    using writer = await hub.createChannel("frames", CHANNEL);
    using reader = await hub.openChannel("frames");
    for (const byteLength of [64, 3]) {
      using slot = await writer.loan();
      slot.commit(byteLength === 64 ? {} : { byteLength, meta: { camera: 1 } });
    }
    using first = await reader.next();
    first?.release();
    using second = reader.tryNext();
    second?.release();
    second?.release();
    const name = "frames";
    const [one, two] = loans.messages.map(({ slot }) => slot) as [never, never];
    assert.deepEqual(loans.messages, [
      { name, slot: one },
      { name, slot: two },
    ]);
    assert.deepEqual(commits.messages, [
      { name, sequence: 0, byteLength: 64, slot: one },
      { name, sequence: 1, byteLength: 3, slot: two },
    ]);
    assert.ok(commits.messages[0]?.slot === one && commits.messages[1]?.slot === two);
    assert.deepEqual(
      receives.messages.map(({ slot: _, ...rest }) => rest),
      [
        { name, sequence: 0, byteLength: 64, missed: 0 },
        { name, sequence: 1, byteLength: 3, missed: 0 },
      ],
    );
    assert.ok(receives.messages[0]?.slot === first && receives.messages[1]?.slot === second);
    assert.deepEqual(
      releases.messages.map(({ slot: _, ...rest }) => rest),
      [
        { name, sequence: 0 },
        { name, sequence: 1 },
      ],
    );
    assert.ok(releases.messages[1]?.slot === second);
  });

  it("tell of a commit that is dropped, without a sequence number", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using commits = Heard.point<CommitMessage>("commit");
    using writer = await hub.createChannel("drops", {
      ...CHANNEL,
      slots: 1,
      whenFull: "drop-newest",
    });
    using _reader = await hub.openChannel("drops");
    for (let count = 0; count < 2; count += 1) (await writer.loan()).commit();
    assert.deepEqual(
      commits.messages.map(({ sequence }) => sequence),
      [0, undefined],
    );
  });

  it("tell a reader that died from one that closed", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using died = Heard.point<ReaderDiedMessage>("reader-died");
    const options = { dtype: "uint32", shape: [64], slots: 4, whenFull: "drop-oldest" } as const;
    using writer = await hub.createChannel("channel", options);
    const write = () => {
      for (let count = 0; count < CHANNEL.slots; count += 1) writer.tryLoan()?.commit();
    };
    const closing = await hub.openChannel("channel");
    await using dying = await startReader(testHub.socket);
    await writer.waitForReaders(2);
    write();
    const { holders } = await hub.inspect("channel");
    closing.close();
    await until("the hub ended the seat", async () => {
      return (await hub.inspect("channel")).holders.length === holders.length - 1;
    });
    write();
    assert.deepEqual(died.messages, []);
    await kill(dying);
    await until("the writer finds it", () => {
      write();
      return died.messages.length > 0;
    });
    write();
    const [lost] = died.messages as readonly ReaderDiedMessage[];
    const place = holders.find(({ pid }) => pid === dying.pid)?.place;
    assert.deepEqual([died.messages.length, lost?.name, lost?.seat], [1, "channel", place]);
    assert.ok(Number.isSafeInteger(lost?.lease));
  });

  it("tell once that a writer died, and nothing of one that closed", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using died = Heard.point<WriterDiedMessage>("writer-died");
    await using writer = await startWriter(testHub.socket);
    using reader = await hub.openChannel("channel");
    await kill(writer);
    for (let count = 0; count < 2; count += 1)
      await assert.rejects(reader.next({ timeoutMs: 30_000 }), { code: "PEER_GONE" });
    assert.deepEqual(died.messages, [{ name: "channel", received: 0 }]);

    const closing = await hub.createChannel("closed", CHANNEL);
    using other = await hub.openChannel("closed");
    closing.close();
    assert.equal(await other.next(), undefined);
    assert.equal(died.messages.length, 1);
    assert.ok(closing instanceof ChannelWriter);
  });
});

describe("diagnostics of a connection", () => {
  checkLeaks();

  it("tell that it ended, that the next hub was found, and at last that none is", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect({ start: false });
    using disconnected = Heard.point<DisconnectMessage>("disconnect");
    using reconnected = Heard.point<object>("reconnect");
    using lost = Heard.point<HubLostMessage>("hub-lost");
    const { pid } = await hub.status();
    process.kill(pid, "SIGKILL");
    await until("it is back", () => reconnected.messages.length > 0);
    const socketPath = testHub.socket;
    assert.deepEqual(
      disconnected.messages.map(({ reason, ...rest }) => [rest, reason.code]),
      [[{ socketPath }, "HUB_GONE"]],
    );
    assert.deepEqual(reconnected.messages, [{ socketPath, resumed: true }]);
    assert.deepEqual(lost.messages, []);
    await hub.stop({ force: true });
    await until("it gave up", () => lost.messages.length > 0);
    const told = lost.messages as readonly HubLostMessage[];
    assert.deepEqual(
      told.map(({ reason, ...rest }) => [rest, reason.code]),
      [[{ socketPath }, "HUB_GONE"]],
    );
  });

  it("tell nothing of one that is closed here", async () => {
    await using testHub = await TestHub.start();
    using disconnected = Heard.point<DisconnectMessage>("disconnect");
    using lost = Heard.point<HubLostMessage>("hub-lost");
    const hub = await testHub.connect();
    await hub.close();
    assert.deepEqual([disconnected.messages, lost.messages], [[], []]);
  });
});

describe("subscribers", () => {
  it("hear their own thread", async () => {
    await using testHub = await TestHub.start();
    const file = new URL("./actors/subscribes-in-thread.js", import.meta.url);
    await using actor = new Actor(file, { args: [testHub.socket] });
    assert.deepEqual(await actor.says(), { heard: [], ofWorker: ["thread"] });
  });

  it("that throw do not fail the call: Node reports an uncaught exception", async () => {
    await using testHub = await TestHub.start();
    const file = new URL("./actors/throws.js", import.meta.url);
    await using actor = new Actor(file, { args: [testHub.socket] });
    assert.deepEqual(await actor.says(), {
      sequence: 0,
      uncaught: ["tracing:cuda-ipc:connect:start", "cuda-ipc:commit", "cuda-ipc:receive"],
    });
  });
});
