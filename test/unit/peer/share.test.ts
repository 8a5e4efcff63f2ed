import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, readdirSync, statSync } from "node:fs";
import { beforeEach, describe, it } from "node:test";
import { Worker } from "node:worker_threads";
import type { ErrorCode } from "../../../src/base/error-codes.js";
import { hasCode } from "../../../src/base/errors.js";
import { interceptLibc } from "../../../src/ffi/intercept-libc.js";
import { DeviceArray } from "../../../src/gpu/arrays/device-array.js";
import { Device } from "../../../src/gpu/device.js";
import { DeviceBuffer } from "../../../src/gpu/memory/device-buffer.js";
import { GrowingBuffer } from "../../../src/gpu/memory/growing-buffer.js";
import { openFdCount } from "../../../src/os/owned-fd.js";
import { SeqpacketSocket } from "../../../src/os/seqpacket.js";
import { SeqpacketListener } from "../../../src/os/seqpacket-listener.js";
import { openShared } from "../../../src/peer/open-shared.js";
import { share } from "../../../src/peer/share.js";
import { Disposables } from "../../support/disposables.js";
import { checkLeaks } from "../../support/leak-check.js";
import { hostBundle, sharedArray } from "../../support/messages.js";
import { OddFds } from "../../support/odd-fds.js";
import { TestRuntime } from "../../support/test-runtime.js";
import { soon, until } from "../../support/until.js";

const code = (wanted: ErrorCode) => (error: unknown) => hasCode(error, wanted);

describe("sharing without a hub", () => {
  let made = new Disposables();
  let runtime: TestRuntime;
  let device: Device;
  checkLeaks(() => made.end());
  beforeEach(() => {
    made = new Disposables();
    runtime = made.add(new TestRuntime());
    device = made.add(Device.open("host"));
  });

  function newArray(): DeviceArray<"int32"> {
    return made.add(DeviceArray.allocate(device, { dtype: "int32", shape: [2, 3] }));
  }

  it("refuses the buffer of memory that grows, which is shared as a GrowingBuffer", () => {
    const growing = made.add(GrowingBuffer.create(device, { byteLength: 10, maxByteLength: 4096 }));
    assert.throws(() => share(growing.buffer), code("UNSUPPORTED"));
  });

  it("exports a read-only descriptor of a buffer that was made read-only", () => {
    const buffer = made.add(DeviceBuffer.allocate(device, 4096).asReadOnly());
    using fd = buffer.exportFd();
    const size = { label: "same", byteLength: 4096, allocationByteLength: 4096 };
    const open = () => DeviceBuffer.import(device, fd, { ...size, access: "read-write" });
    assert.throws(open, code("READ_ONLY"));
    using same = DeviceBuffer.import(device, fd, { byteLength: 4096 });
    assert.deepEqual([same.label, same.access, same.imported], ["buffer", "read", true]);
  });

  it("imports by descriptor only memory, of the size that it has", () => {
    using odd = new OddFds();
    for (const fd of odd.all) {
      const open = () => DeviceBuffer.import(device, fd, { byteLength: 8192 });
      assert.throws(open, code("INVALID_DESCRIPTOR"));
    }
    const buffer = made.add(DeviceBuffer.allocate(device, 4096));
    using fd = buffer.exportFd();
    for (const byteLength of [0, 4097, 2 ** 50])
      assert.throws(
        () => DeviceBuffer.import(device, fd, { byteLength }),
        code("INVALID_DESCRIPTOR"),
      );
    const open = (options: unknown) => DeviceBuffer.import(device, fd, options as never);
    assert.throws(
      () => open({}),
      /^TypeError: DeviceBuffer\.import\(\) needs the option byteLength/,
    );
    assert.throws(() => open({ byteLength: -1 }), RangeError);
    assert.throws(() => open({ byteLength: 8, acess: "read" }), /has no option "acess"/);
  });

  it("opens an array from its document, for reading by default", async () => {
    const array = newArray();
    await array.write([1, 2, 3, 4, 5, 6]);
    using shared = share(array);
    using opened = await openShared(JSON.parse(JSON.stringify(shared)));
    assert.deepEqual([opened.dtype, opened.shape, opened.strides], ["int32", [2, 3], [3, 1]]);
    assert.deepEqual([array.buffer.imported, opened.buffer.imported], [false, true]);
    assert.deepEqual([...(await opened.expectDType("int32").read())], [1, 2, 3, 4, 5, 6]);
    await assert.rejects(opened.write([0, 0, 0, 0, 0, 0]), code("READ_ONLY"));
    using writable = (await openShared(shared.document, { access: "read-write" })).expectDType(
      "int32",
    );
    await writable.write([6, 5, 4, 3, 2, 1]);
    assert.deepEqual([...(await array.read())], [6, 5, 4, 3, 2, 1]);
  });

  it("opens a part of an array as that part", async () => {
    const array = newArray();
    await array.write([1, 2, 3, 4, 5, 6]);
    using shared = share(array.slice({}, { start: 2, step: -1 }).transpose());
    using opened = await openShared(shared.document);
    assert.deepEqual([...(await opened.expectDType("int32").read())], [3, 6, 2, 5, 1, 4]);
  });

  it("opens a buffer as a buffer or as bytes, and an array as its buffer", async () => {
    const buffer = made.add(DeviceBuffer.allocate(device, 5));
    await buffer.write(0, Uint8Array.of(1, 2, 3, 4, 5));
    using shared = share(buffer);
    assert.equal(shared.document.kind, "buffer");
    using opened = await openShared(shared.document, { kind: "buffer" });
    assert.deepEqual([opened.byteLength, ...opened.view()], [5, 1, 2, 3, 4, 5]);
    using bytes = (await openShared(shared.document)).expectDType("uint8");
    assert.deepEqual([...(await bytes.read())], [1, 2, 3, 4, 5]);
    using sharedArray = share(newArray());
    using whole = await openShared(sharedArray.document, { kind: "buffer" });
    assert.equal(whole.byteLength, 24);
  });

  it("keeps the memory for later openers, whatever else is closed", async () => {
    const array = newArray();
    await array.write([1, 2, 3, 4, 5, 6]);
    const shared = share(array);
    array.close();
    using opened = (await openShared(shared.document)).expectDType("int32");
    shared.close();
    shared.close();
    assert.deepEqual([...(await opened.read())], [1, 2, 3, 4, 5, 6]);
  });

  it("refuses a withdrawn document, whether or not anything else is shared", async () => {
    const [array, other] = [newArray(), newArray()];
    const shared = share(array);
    const kept = share(other);
    shared.close();
    await assert.rejects(openShared(shared.document), code("STALE_HANDLE"));
    kept.close();
    await assert.rejects(openShared(shared.document), code("STALE_HANDLE"));
    await assert.rejects(openShared(kept.document), code("STALE_HANDLE"));
  });

  it("tells openers in progress that the document was withdrawn", async () => {
    const shared = share(newArray());
    const opening = openShared(shared.document);
    shared.close();
    await assert.rejects(opening, code("STALE_HANDLE"));
  });

  it("refuses a guessed token, another boot, and an exporter that is gone", async () => {
    using shared = share(newArray());
    const { document } = shared;
    const guessed = { ...document, fds: { ...document.fds, token: "0".repeat(32) } };
    await assert.rejects(openShared(guessed), code("STALE_HANDLE"));
    const rebooted = {
      ...document,
      exporter: { ...document.exporter, bootId: sharedArray.exporter.bootId },
    };
    await assert.rejects(openShared(rebooted), code("STALE_HANDLE"));
    const gone = {
      ...document,
      exporter: { ...document.exporter, startTicks: 1 },
      fds: { ...document.fds, socket: runtime.file("peer-1-00.sock") },
    };
    await assert.rejects(openShared(gone), code("PEER_GONE"));
  });

  it("grants no more than was shared: the kernel refuses a document that was changed", async () => {
    using shared = share(newArray(), { access: "read" });
    await assert.rejects(openShared(shared.document, { access: "read-write" }), code("READ_ONLY"));
    const changed = { ...shared.document, access: "read-write" };
    await assert.rejects(openShared(changed, { access: "read-write" }), code("READ_ONLY"));
    (await openShared(shared.document)).close();
  });

  const lies: Record<string, (document: typeof sharedArray) => unknown> = {
    "claims more memory than there is": ({ descriptor, ...rest }) => ({
      ...rest,
      descriptor: { ...descriptor, allocationByteLength: 1 << 20, byteLength: 1 << 20 },
    }),
    "has an array that leaves its memory": ({ descriptor, ...rest }) => ({
      ...rest,
      descriptor: {
        ...descriptor,
        content: {
          kind: "array",
          array: { dtype: "int32", shape: [2, 4], strides: [4, 1], byteOffset: 0 },
        },
      },
    }),
    "has strides into memory before it": ({ descriptor, ...rest }) => ({
      ...rest,
      descriptor: {
        ...descriptor,
        content: {
          kind: "array",
          array: { dtype: "int32", shape: [2, 3], strides: [-3, 1], byteOffset: 0 },
        },
      },
    }),
    "describes a bundle": ({ descriptor, ...rest }) => ({
      ...rest,
      descriptor: { ...descriptor, content: hostBundle(1, 10).content },
    }),
    "is no document": () => ({ hello: "world" }),
    "is nothing": () => null,
  };
  for (const [what, spoil] of Object.entries(lies)) {
    it(`refuses a document that ${what}, and leaves nothing open`, async () => {
      using shared = share(newArray());
      await assert.rejects(openShared(spoil(shared.document)), code("INVALID_DESCRIPTOR"));
    });
  }

  it("opens on the given or named device, and refuses one of another kind", async () => {
    using shared = share(newArray());
    using given = await openShared(shared.document, { device });
    assert.equal(given.device, device);
    using named = await openShared(shared.document, { device: "host" });
    using again = await openShared(shared.document, { device: "host" });
    assert.equal(named.device, again.device);
    assert.notEqual(named.device, device);
    named.close();
    assert.ok(again.device.open);
    again.close();
    await until("the device is closed after the last", () => !again.device.open);
    assert.ok(device.open);
    await assert.rejects(
      openShared(shared.document, { device: 3 as unknown as string }),
      TypeError,
    );
    await assert.rejects(openShared(shared.document, { access: "write" as "read" }), TypeError);
  });

  it("respects the time limit and the signal, and leaves nothing open", async () => {
    using shared = share(newArray());
    await assert.rejects(openShared(shared.document, { timeoutMs: 0 }), code("TIMEOUT"));
    await assert.rejects(
      openShared(shared.document, { signal: AbortSignal.abort() }),
      code("ABORTED"),
    );
    const controller = new AbortController();
    const opening = openShared(shared.document, { signal: controller.signal });
    controller.abort();
    await assert.rejects(opening, code("ABORTED"));
  });

  it("refuses to share anything else", () => {
    assert.throws(() => share({} as DeviceArray), TypeError);
    assert.throws(() => share(newArray(), { access: "all" as "read" }), TypeError);
    assert.deepEqual(runtime.names(), []);
  });

  it("refuses to share an object that it has opened itself", async () => {
    using shared = share(newArray());
    using opened = await openShared(shared.document);
    assert.throws(() => share(opened), code("UNSUPPORTED"));
  });

  it("listens on one socket for this user only while anything is shared", () => {
    const shared = [share(newArray()), share(newArray())];
    assert.equal(readdirSync(runtime.folder.path).length, 1);
    const path = shared[0]?.document.fds.socket ?? "";
    assert.match(path, new RegExp(`/peer-${process.pid}-[0-9a-f]+\\.sock$`));
    assert.equal(statSync(path).mode & 0o777, 0o600);
    for (const one of shared) one.close();
    assert.equal(existsSync(path), false);
  });

  it("removes sockets of killed processes, and none that is just being made", () => {
    // WHY this number: above the largest of any process, as one of another PID namespace.
    const pid = 2 ** 22 + 1;
    const stale = runtime.file(`peer-${pid}-aa.sock`);
    SeqpacketListener.listen(stale).close();
    const undo = interceptLibc((call) => {
      if (call !== "listen") return undefined;
      undo();
      share(newArray()).close();
      return undefined;
    });
    const listener = SeqpacketListener.listen(runtime.file(`peer-${pid}-bb.sock`));
    assert.deepEqual(runtime.names(), [`peer-${pid}-bb.sock`]);
    listener.close();
  });

  it("refuses malformed requests, and goes on serving others", async () => {
    using shared = share(newArray());
    for (const request of ["", "{", "{}", '{"v":1,"op":"fetch"}', '{"v":2}', "x".repeat(5000)]) {
      const socket = SeqpacketSocket.connect(shared.document.fds.socket);
      if (request !== "") socket.trySend(Buffer.from(request));
      else socket.close();
      if (request === "") continue;
      const replies: string[] = [];
      await until("it hangs up", () => {
        const packet = socket.tryReceive();
        if (packet !== undefined && packet !== "end")
          replies.push(Buffer.from(packet.bytes).toString());
        return packet === "end";
      });
      socket.close();
      assert.match(
        replies.join(),
        /"ok":false.*"(INVALID_MESSAGE|PROTOCOL_MISMATCH|MESSAGE_TOO_LARGE)"/,
      );
    }
    (await openShared(shared.document)).close();
  });

  it("refuses or closes descriptors that are sent with a request", async () => {
    using shared = share(newArray());
    const socket = SeqpacketSocket.connect(shared.document.fds.socket);
    const before = openFdCount();
    try {
      socket.trySend(Buffer.from("{}"), [socket.fd, socket.fd]);
      await until("it hangs up", () => {
        const packet = socket.tryReceive();
        return packet === "end";
      });
    } catch (error) {
      // Linux 6.16 and newer do not even accept them.
      assert.ok(hasCode(error, "PERMISSION_DENIED"));
    }
    assert.equal(openFdCount(), before);
    socket.close();
  });

  it("opens in a worker thread an object of the main thread, and vice versa", async () => {
    const array = newArray();
    await array.write([1, 2, 3, 4, 5, 6]);
    using shared = share(array);
    const worker = new Worker(new URL("./actors/shares-in-thread.js", import.meta.url), {
      workerData: shared.document,
    });
    const exited = once(worker, "exit");
    const [message] = (await soon("the thread answers", once(worker, "message"))) as [
      { sum: number; document: unknown },
    ];
    assert.equal(message.sum, 21);
    using opened = (await openShared(message.document)).expectDType("int32");
    assert.deepEqual([...(await opened.read())], [2, 4, 6, 8, 10, 12]);
    worker.postMessage("done");
    await soon("the thread ends", exited);
  });
});
