/**
 * Clients that break the protocol or lie about their memory: the hub refuses them, and other
 * clients notice nothing.
 */
import assert from "node:assert/strict";
import { openSync } from "node:fs";
import { beforeEach, describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { limits } from "../../../src/base/limits.js";
import type { Hub } from "../../../src/client/hub.js";
import { libc } from "../../../src/ffi/libc.js";
import { createConstantFile, createMemoryFile } from "../../../src/os/memory-file.js";
import { OwnedFd } from "../../../src/os/owned-fd.js";
import type { Descriptor } from "../../../src/wire/descriptor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { hostArray, hostBundle, timelineDescriptor } from "../../support/messages.js";
import { RawClient } from "../../support/raw-client.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";

const F_ADD_SEALS = 1033;
/** F_SEAL_SHRINK and F_SEAL_GROW. */
const SIZE_SEALS = 6;
const CREATE = { op: "create", name: "frame", lifetime: "held" } as const;

describe("a hostile client", () => {
  let testHub: TestHub;
  let hub: Hub;
  let fdsBefore: number;

  checkLeaks(async () => {
    try {
      await until("nothing is left of it in the hub, which answers", async () => {
        const { clients, objects, leases, waitingOpens } = await hub.status();
        return (
          clients === 1 && objects + leases + waitingOpens === 0 && testHub.fdCount() === fdsBefore
        );
      });
    } finally {
      await hub.close();
      await testHub[Symbol.asyncDispose]();
    }
  });
  beforeEach(async () => {
    testHub = await TestHub.start();
    hub = await testHub.connect();
    fdsBefore = testHub.fdCount();
  });

  async function assertEnded(client: RawClient, code: string): Promise<void> {
    const reply = await client.reply();
    assert.ok(reply !== "end");
    assert.equal(reply.error?.code, code);
    assert.equal(await client.reply(), "end");
    client.socket.close();
    await until("only this session has ended", async () => (await hub.status()).clients === 1);
  }

  const broken: Record<string, string> = {
    "sends text that is not JSON": "hello?",
    "sends JSON that is no message": "[1,2,3]",
    "sends half of a message": '{"v":1,"id":5,"op":"sta',
    "sends bytes of zero": "\0\0\0\0",
  };
  for (const [what, text] of Object.entries(broken)) {
    it(`that ${what} gets an error and is hung up on`, async () => {
      using client = await RawClient.connect(testHub.socket);
      client.sendText(text);
      await assertEnded(client, "INVALID_MESSAGE");
    });
  }

  it("that sends a request before hello gets an error and is hung up on", async () => {
    using client = await RawClient.connect(testHub.socket, false);
    client.send({ ...CREATE, descriptor: hostArray });
    await assertEnded(client, "INVALID_MESSAGE");
  });

  it("that sends a message over the limit gets an error and is hung up on", async () => {
    using client = await RawClient.connect(testHub.socket);
    const bytes = Buffer.alloc(limits.messageBytesMax + 100, " ");
    assert.equal(client.sendUnchecked(bytes), bytes.byteLength);
    await assertEnded(client, "MESSAGE_TOO_LARGE");
  });

  it("that sends no bytes at all is hung up on", async () => {
    using client = await RawClient.connect(testHub.socket);
    assert.equal(client.sendUnchecked(Buffer.alloc(0)), 0);
    assert.equal(await client.reply(), "end");
  });

  it("that hangs up without bye in the middle of everything is forgotten", async () => {
    using client = await RawClient.connect(testHub.socket);
    client.send({ op: "open", name: "never", access: "read", wait: true });
    client.send({ op: "status" });
    client.socket.close();
    await until("the hub has forgotten it", async () => (await hub.status()).clients === 1);
  });

  for (const count of [0, 2, 50, 253]) {
    it(`that sends ${count} descriptors where 1 is wanted is refused`, async () => {
      using client = await RawClient.connect(testHub.socket);
      using memory = createMemoryFile("test", 4096);
      const { error } = await client.ask(
        { ...CREATE, descriptor: hostArray },
        new Array(count).fill(memory),
      );
      assert.equal(error?.code, "INVALID_MESSAGE");
      assert.ok((await client.ask({ op: "status" })).ok, "its session goes on");
      const { error: unwanted } = await client.ask({ op: "status" }, [memory]);
      assert.equal(unwanted?.code, "INVALID_MESSAGE");
    });
  }

  it("that claims more than its memory has is refused", async () => {
    using client = await RawClient.connect(testHub.socket);
    using memory = createMemoryFile("test", 4096);
    const descriptor = { ...hostArray, byteLength: 8192, allocationByteLength: 8192 };
    const { error } = await client.ask({ ...CREATE, descriptor }, [memory]);
    assert.deepEqual(
      [error?.code, /8192 bytes.*4096/.test(error?.message ?? "")],
      ["INVALID_DESCRIPTOR", true],
    );
  });

  it("that could shrink its memory later is always refused", async () => {
    using client = await RawClient.connect(testHub.socket);
    using memfd = new OwnedFd(libc().memfd_create("unsealed", 1 | 2));
    assert.equal(libc().ftruncate(memfd.number, 4096), 0);
    using device = new OwnedFd(openSync("/dev/zero", "r+"));
    using folder = new OwnedFd(openSync("/tmp", "r"));
    for (const fd of [memfd, device, folder, client.socket.fd]) {
      const { error } = await client.ask({ ...CREATE, descriptor: hostArray }, [fd]);
      assert.equal(error?.code, "INVALID_DESCRIPTOR");
    }
  });

  it("that brings memory in huge pages is refused, even for a timeline", async () => {
    using client = await RawClient.connect(testHub.socket);
    using huge = new OwnedFd(libc().memfd_create("huge", 2 | 4));
    assert.equal(libc().ftruncate(huge.number, 2 << 20), 0);
    assert.equal(libc().fcntl(huge.number, F_ADD_SEALS, SIZE_SEALS), 0);
    for (const descriptor of [hostArray, timelineDescriptor]) {
      const { error } = await client.ask({ ...CREATE, descriptor }, [huge]);
      assert.deepEqual(
        [error?.code, /huge pages/.test(error?.message ?? "")],
        ["INVALID_DESCRIPTOR", true],
      );
    }
  });

  it("whose memory others could seal against writing is refused", async () => {
    using client = await RawClient.connect(testHub.socket);
    using memory = new OwnedFd(libc().memfd_create("open to seals", 2));
    assert.equal(libc().ftruncate(memory.number, 4096), 0);
    assert.equal(libc().fcntl(memory.number, F_ADD_SEALS, SIZE_SEALS), 0);
    const { error } = await client.ask({ ...CREATE, descriptor: hostArray }, [memory]);
    assert.deepEqual(
      [error?.code, /F_SEAL_SEAL/.test(error?.message ?? "")],
      ["INVALID_DESCRIPTOR", true],
    );
  });

  it("that sends an unsealed index, or one of another length, is refused", async () => {
    using client = await RawClient.connect(testHub.socket);
    using memory = createMemoryFile("test", 4096);
    using changeable = createMemoryFile("index", 100);
    using constant = createConstantFile("index", Buffer.alloc(100, " "));
    for (const [index, claimed] of [
      [changeable, 100],
      [constant, 99],
      [constant, 101],
    ] as const) {
      const { error } = await client.ask({ ...CREATE, descriptor: hostBundle(1, claimed) }, [
        memory,
        index,
      ]);
      assert.equal(error?.code, "INVALID_DESCRIPTOR");
    }
  });

  it("that reuses the id of a waiting request is refused, and the wait goes on", async () => {
    using client = await RawClient.connect(testHub.socket);
    const open = { id: 700, op: "open", name: "frame", access: "read", wait: true };
    client.send(open);
    const { id, error } = await client.ask(open);
    assert.deepEqual([id, error?.code], [700, "INVALID_MESSAGE"]);
    using array = await hub.create("frame", { dtype: "int32", shape: [1] });
    await array.publish();
    const granted = await client.reply();
    assert.ok(granted !== "end" && granted.ok);
    assert.ok((await client.ask({ op: "release", lease: granted.result?.lease })).ok);
  });

  it("that releases, publishes or cancels what it does not own is refused", async () => {
    using client = await RawClient.connect(testHub.socket);
    using array = await hub.create("frame", { dtype: "int32", shape: [1] });
    const codes: unknown[] = [];
    for (let id = array.object - 5; id <= array.object + 5; id += 1) {
      codes.push((await client.ask({ op: "release", lease: id })).error?.code);
      codes.push((await client.ask({ op: "publish", object: id })).error?.code);
    }
    assert.deepEqual(new Set(codes), new Set(["NOT_FOUND", "NOT_OWNER"]));
    assert.equal((await hub.inspect("frame")).object.published, false);
    await array.publish();
  });

  it("that reads no replies is not read either, while others are served", async () => {
    using client = await RawClient.connect(testHub.socket);
    let sent = 0;
    const send = () => {
      const taken = client.socket.trySend(
        Buffer.from(JSON.stringify({ v: 1, id: sent + 10, op: "status" })),
      );
      if (taken) sent += 1;
      return taken;
    };
    await until("the hub takes no more", async () => {
      while (send());
      assert.equal((await hub.status()).clients, 2);
      return !send();
    });
    using array = await hub.create("frame", { dtype: "int32", shape: [1] });
    await array.publish();
    assert.ok(sent < 1000, `${sent} requests were taken`);
    for (let id = 10; id < 10 + sent; id += 1) {
      const reply = await client.reply();
      assert.ok(reply !== "end" && reply.ok);
      assert.equal(reply.id, id);
    }
  });

  const index = (arrays: unknown, more: Record<string, unknown> = {}) =>
    JSON.stringify({ version: 1, metadata: {}, arrays, ...more });
  const w = { name: "w", dtype: "float32", shape: [2], strides: [1], byteOffset: 0 };
  const lies: Record<string, [string, number]> = {
    "is not JSON": ["not JSON", 1],
    "is not UTF-8": ["\u{fe}\u{ff}", 1],
    "names an array twice": [index([w, w]), 2],
    "has an array that leaves the content": [index([{ ...w, shape: [7] }]), 1],
    "has an array that begins before the memory": [index([{ ...w, strides: [-1] }]), 1],
    "has an array that is not aligned": [index([{ ...w, byteOffset: 2 }]), 1],
    "has fewer strides than dimensions": [index([{ ...w, strides: [] }]), 1],
    "has fewer arrays than claimed": [index([w]), 2],
    "is of another version": [index([w], { version: 2 }), 1],
    "has metadata that is no text": [index([w], { metadata: { a: 1 } }), 1],
  };
  for (const [what, [text, arrayCount]] of Object.entries(lies)) {
    it(`whose index ${what} is refused by its opener, and nothing is left`, async () => {
      using client = await RawClient.connect(testHub.socket);
      const bytes = Buffer.from(text, what === "is not UTF-8" ? "latin1" : "utf8");
      await share(client, hostBundle(arrayCount, bytes.byteLength), bytes);
      await assert.rejects(hub.openBundle("frame"), (error) =>
        hasCode(error, "INVALID_DESCRIPTOR"),
      );
      await until("its lease is given back", async () => (await hub.status()).leases === 1);
      await client.ask({ op: "bye" });
    });
  }

  it("whose dtype is unknown is refused by its opener", async () => {
    using client = await RawClient.connect(testHub.socket);
    const array = { dtype: "float7", shape: [1], strides: [1], byteOffset: 0 };
    await share(client, { ...hostArray, content: { kind: "array", array } });
    await assert.rejects(hub.open("frame"), (error) => hasCode(error, "UNSUPPORTED_DTYPE"));
    await client.ask({ op: "bye" });
  });

  it("whose array exceeds its memory is refused by its opener, which goes on", async () => {
    using client = await RawClient.connect(testHub.socket);
    const array = { dtype: "float32", shape: [2, 3], strides: [3, 1], byteOffset: 4 };
    await share(client, { ...hostArray, content: { kind: "array", array } });
    for (let i = 0; i < 3; i += 1) {
      await assert.rejects(hub.open("frame"), (error) => hasCode(error, "INVALID_DESCRIPTOR"));
    }
    await until("its leases are given back", async () => (await hub.status()).leases === 1);
    await using other = await testHub.connect();
    await assert.rejects(other.open("frame"), (error) => hasCode(error, "INVALID_DESCRIPTOR"));
    await client.ask({ op: "bye" });
  });

  async function share(
    client: RawClient,
    descriptor: Descriptor,
    index?: Uint8Array,
  ): Promise<void> {
    using memory = createMemoryFile("test", 4096);
    using indexFile = index === undefined ? undefined : createConstantFile("index", index);
    const fds = indexFile === undefined ? [memory] : [memory, indexFile];
    const { result, error } = await client.ask({ ...CREATE, descriptor }, fds);
    assert.equal(error, undefined);
    assert.ok((await client.ask({ op: "publish", object: result?.object })).ok);
  }
});
