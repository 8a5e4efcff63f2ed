/**
 * Arrays by handle between processes on the host device: what a handle opens, and the handles that
 * must open nothing.
 */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import type { ErrorCode } from "../../../src/base/error-codes.js";
import { hasCode } from "../../../src/base/errors.js";
import {
  type ArrayHandleDocument,
  DeviceBuffer,
  IpcArrayHandle,
  openIpcHandle,
} from "../../../src/doors/interop.js";
import { Device, DeviceArray } from "../../../src/index.js";
import { openFdCount } from "../../../src/os/owned-fd.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { until } from "../../support/until.js";

const SHARES = new URL("./actors/shares-array.js", import.meta.url);
const OPENS = new URL("./actors/opens-array.js", import.meta.url);

interface Shared {
  readonly whole: ArrayHandleDocument;
  readonly part: ArrayHandleDocument;
}

let device: Device;
checkLeaks(() => device.close());
beforeEach(() => {
  device = Device.open("host");
});

async function sharer(): Promise<{ actor: Actor; shared: Shared }> {
  const actor = new Actor(SHARES, { args: ["host"] });
  return { actor, shared: (await actor.says()) as Shared };
}

function refused(code: ErrorCode, attempt: () => unknown): void {
  assert.throws(attempt, (error) => {
    assert.ok(hasCode(error, code), `wanted ${code}: ${String(error)}`);
    return true;
  });
}

const open = (json: unknown) => IpcArrayHandle.from(json).open(device);

describe("the handle of an array", () => {
  it("opens it in another process, and a slice with its shape, strides and offset", async () => {
    const { actor, shared } = await sharer();
    await using _ = actor;
    using whole = IpcArrayHandle.from(shared.whole)
      .open(device, { access: "read-write", label: "whole" })
      .expectDType("int32");
    assert.deepEqual(
      [whole.shape, whole.strides, whole.buffer.mechanism],
      [[4, 6], [6, 1], "legacy"],
    );
    assert.deepEqual(
      await whole.read(),
      Int32Array.from({ length: 24 }, (_, i) => i),
    );
    using part = open(shared.part).expectDType("int32");
    assert.deepEqual(
      [part.shape, part.strides],
      [
        [2, 3],
        [6, -2],
      ],
    );
    assert.deepEqual([...(await part.read())], [11, 9, 7, 17, 15, 13]);
    await whole.slice(1).write([0, 1, 2, 3, 4, 5]);
    assert.deepEqual([...(await part.read())], [5, 3, 1, 17, 15, 13]);
  });

  it("is JSON, and shows what it opens", async () => {
    using array = DeviceArray.allocate(device, {
      dtype: "float16",
      shape: [3, 5],
      mechanism: "legacy",
    });
    const handle = IpcArrayHandle.of(array.transpose());
    const again = IpcArrayHandle.from(JSON.parse(JSON.stringify(handle)));
    assert.deepEqual([again.dtype, again.shape, again.strides], ["float16", [5, 3], [1, 5]]);
    assert.deepEqual(again.toJSON(), handle.toJSON());
  });

  it("closes with close() the arrays that it opened, and no others", async () => {
    const { actor, shared } = await sharer();
    await using _ = actor;
    const fds = openFdCount();
    using handle = IpcArrayHandle.from(shared.whole);
    using other = open(shared.whole);
    const [first, second] = [handle.open(device), handle.open(device)];
    assert.ok(first.buffer.imported);
    first.close();
    handle.close();
    handle.close();
    refused("CLOSED", () => second.buffer.pointer);
    assert.equal(
      await other
        .expectDType("int32")
        .read()
        .then((it) => it[23]),
      23,
    );
    other.close();
    assert.equal(openFdCount(), fds);
    {
      using again = IpcArrayHandle.from(shared.part);
      assert.deepEqual(again.open(device).shape, [2, 3]);
    }
    assert.equal(openFdCount(), fds, "the end of its block closes a handle");
    using mine = DeviceArray.allocate(device, { dtype: "int8", shape: [1], mechanism: "legacy" });
    IpcArrayHandle.of(mine).close();
    assert.ok(!mine.buffer.imported && mine.buffer.open);
  });

  it("is opened by a child, which writes to it", async () => {
    using array = DeviceArray.allocate(device, { dtype: "int32", shape: [5], mechanism: "legacy" });
    await array.write([1, 2, 3, 4, 5]);
    await using actor = new Actor(OPENS, {
      args: ["host", JSON.stringify(IpcArrayHandle.of(array.slice({ start: 2 })))],
    });
    assert.deepEqual(await actor.says(), [3, 4, 5]);
    assert.equal(await actor.exited(), 0);
    assert.deepEqual([...(await array.read())], [1, 2, 6, 8, 10]);
  });

  it("gives two arrays on one mapping if it is opened twice, each closed separately", async () => {
    const { actor, shared } = await sharer();
    await using _ = actor;
    const fds = openFdCount();
    const [first, second] = [open(shared.whole), open(shared.part)];
    assert.equal(first.buffer.pointer, second.buffer.pointer);
    first.close();
    refused("CLOSED", () => first.buffer.pointer);
    assert.equal((await second.read())[0], 11);
    second.close();
    assert.equal(openFdCount(), fds, "the exporter is watched no longer");
    using again = open(shared.whole);
    assert.equal((await again.read())[1], 1);
  });

  it("opens for reading by default", async () => {
    const { actor, shared } = await sharer();
    await using _ = actor;
    using array = open(shared.whole).expectDType("int32");
    await assert.rejects(array.write(new Int32Array(24)), (error) => hasCode(error, "READ_ONLY"));
    refused("READ_ONLY", () =>
      device.driver.fill(
        device.driver.createStream(0),
        array.buffer.pointer,
        { elementBytes: 1, value: 1 },
        1,
      ),
    );
    using writable = IpcArrayHandle.from(shared.whole).open(device, { access: "read-write" });
    assert.notEqual(writable.buffer.pointer, array.buffer.pointer);
  });

  it("outlives its exporter while it is open, and cannot be opened again", async () => {
    const { actor, shared } = await sharer();
    using array = open(shared.whole).expectDType("int32");
    actor.kill("SIGKILL");
    await actor.exited();
    await actor[Symbol.asyncDispose]();
    assert.equal((await array.read())[23], 23);
    // WHY until: memory that is open already opens again without a system call, until the event
    // loop sees that its exporter ended.
    await until("it is opened no more", () => {
      try {
        open(shared.whole).close();
        return false;
      } catch (error) {
        return hasCode(error, "STALE_HANDLE");
      }
    });
  });
});

describe("the handle of an array is refused", () => {
  it("in the process that made it, and for memory without a handle", () => {
    using array = DeviceArray.allocate(device, { dtype: "int8", shape: [8], mechanism: "legacy" });
    refused("OWN_HANDLE", () => open(IpcArrayHandle.of(array).toJSON()));
    refused("OWN_HANDLE", () =>
      openIpcHandle(device, IpcArrayHandle.of(array).toJSON().handle, {
        dtype: "int8",
        shape: [8],
      }),
    );
    using other = DeviceArray.allocate(device, { dtype: "int8", shape: [8] });
    refused("UNSUPPORTED", () => IpcArrayHandle.of(other));
    refused("UNSUPPORTED", () => array.buffer.exportFd());
  });

  it("when it was imported itself", async () => {
    const { actor, shared } = await sharer();
    await using _ = actor;
    using array = open(shared.whole);
    refused("UNSUPPORTED", () => IpcArrayHandle.of(array));
  });

  it("of a process that was killed, never existed, or ran before a reboot", async () => {
    const { actor, shared } = await sharer();
    const { whole } = shared;
    const { exporter } = whole;
    refused("STALE_HANDLE", () =>
      open({ ...whole, exporter: { ...exporter, startTicks: exporter.startTicks + 1 } }),
    );
    refused("STALE_HANDLE", () =>
      open({
        ...whole,
        exporter: {
          ...exporter,
          bootId: exporter.bootId.replace(/^./, (c) => (c === "0" ? "1" : "0")),
        },
      }),
    );
    actor.kill("SIGKILL");
    await actor.exited();
    await actor[Symbol.asyncDispose]();
    refused("STALE_HANDLE", () => open(whole));
    refused("STALE_HANDLE", () =>
      openIpcHandle(device, whole.handle, { dtype: "int32", shape: [4] }),
    );
  });

  it("with 63 or 65 bytes, or other bytes than it had", async () => {
    const { actor, shared } = await sharer();
    await using _ = actor;
    const bytes = Buffer.from(shared.whole.handle, "base64");
    const options = { dtype: "int32", shape: [24] } as const;
    for (const wrong of [
      bytes.subarray(1),
      Buffer.concat([bytes, bytes]).subarray(0, 65),
      Buffer.alloc(0),
    ]) {
      refused("INVALID_HANDLE", () => open({ ...shared.whole, handle: wrong.toString("base64") }));
      for (const form of [wrong, [...wrong], wrong.toString("base64")]) {
        refused("INVALID_HANDLE", () => openIpcHandle(device, form, options));
      }
    }
    refused("INVALID_HANDLE", () => openIpcHandle(device, "not base64!", options));
    for (let at = 0; at < bytes.byteLength; at += 1) {
      const damaged = Buffer.from(bytes);
      damaged[at] = (damaged[at] ?? 0) ^ 0x41;
      assert.throws(
        () => openIpcHandle(device, damaged, options),
        (error) =>
          hasCode(error, "INVALID_HANDLE") ||
          hasCode(error, "STALE_HANDLE") ||
          hasCode(error, "OTHER_PID_NAMESPACE"),
        `byte ${at}`,
      );
    }
  });

  it("that claims more than its block has", async () => {
    const { actor, shared } = await sharer();
    await using _ = actor;
    const { whole } = shared;
    const array = { ...whole.array, shape: [2 ** 20] };
    refused("INVALID_DESCRIPTOR", () => open({ ...whole, array: { ...array, strides: [1] } }));
    refused("INVALID_DESCRIPTOR", () => open({ ...whole, array: { ...array, strides: [-1] } }));
    refused("INVALID_DESCRIPTOR", () =>
      open({ ...whole, blockByteLength: 2 ** 22, array: { ...array, strides: [1] } }),
    );
    refused("INVALID_DESCRIPTOR", () =>
      open({
        ...whole,
        device: {
          kind: "cuda",
          uuid: `GPU-${"0".repeat(8)}-${"0".repeat(4)}-${"0".repeat(4)}-${"0".repeat(4)}-${"0".repeat(12)}`,
        },
      }),
    );
    refused("INVALID_DESCRIPTOR", () => open({ ...whole, surplus: 1 }));
    refused("INVALID_DESCRIPTOR", () => open("a text"));
  });
});

describe("a raw handle", () => {
  let actor: Actor;
  let shared: Shared;
  beforeEach(async () => {
    ({ actor, shared } = await sharer());
  });
  afterEach(() => actor[Symbol.asyncDispose]());

  it("opens from bytes, numbers or base64, with the caller's shape, strides and offset", async () => {
    const bytes = Buffer.from(shared.whole.handle, "base64");
    for (const form of [bytes, [...bytes], shared.whole.handle]) {
      using array = openIpcHandle(device, form, { dtype: "int32", shape: [4, 6] });
      assert.deepEqual((await array.read())[23], 23);
    }
    using column = openIpcHandle(device, bytes, {
      dtype: "int32",
      shape: [4],
      strides: [6],
      byteOffset: 8,
    });
    assert.deepEqual([...(await column.read())], [2, 8, 14, 20]);
    using backwards = openIpcHandle(device, bytes, {
      dtype: "int32",
      shape: [3],
      strides: [-1],
      byteOffset: 8,
    });
    assert.deepEqual([...(await backwards.read())], [2, 1, 0]);
  });

  it("is refused with a layout that leaves the block, and leaves nothing open", () => {
    const wrong = [
      { dtype: "int32", shape: [2 ** 20] },
      { dtype: "int32", shape: [4], strides: [-1] },
      { dtype: "int32", shape: [4], strides: [2 ** 40] },
      { dtype: "int32", shape: [4], strides: [0, 0] },
      { dtype: "int32", shape: [4], byteOffset: 2 ** 21 - 12 },
      { dtype: "int32", shape: [4], byteOffset: 2 },
      { dtype: "int32", shape: [4], byteOffset: -4 },
    ] as const;
    for (const options of wrong)
      refused("INVALID_DESCRIPTOR", () => openIpcHandle(device, shared.whole.handle, options));
    assert.throws(
      () => openIpcHandle(device, shared.whole.handle, { dtype: "int32", shape: [-1] }),
      RangeError,
    );
    assert.throws(() => openIpcHandle(device, [300], { dtype: "int32", shape: [1] }), RangeError);
    assert.throws(
      () => openIpcHandle(device, {} as never, { dtype: "int32", shape: [1] }),
      TypeError,
    );
  });
});

describe("a buffer of the legacy mechanism", () => {
  it("takes whole granules, and refuses other options with a TypeError", () => {
    using buffer = DeviceBuffer.allocate(device, 5, { mechanism: "legacy" });
    assert.deepEqual(
      [buffer.byteLength, buffer.allocationByteLength, buffer.mechanism],
      [5, 2 ** 21, "legacy"],
    );
    assert.throws(() => DeviceBuffer.allocate(device, 5, { mechanism: "vmm" as never }), TypeError);
    assert.throws(
      () => DeviceBuffer.allocate(device, 5, { mechanism: "legacy", place: "host-numa" }),
      TypeError,
    );
  });
});
