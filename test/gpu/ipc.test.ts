/**
 * Handles of memory and events between processes on a real GPU, and how its driver behaves where
 * NVIDIA's manual is silent.
 */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it, type TestContext } from "node:test";
import type { ErrorCode } from "../../src/base/error-codes.js";
import { CudaIpcError } from "../../src/base/errors.js";
import {
  type ArrayHandleDocument,
  Event,
  type EventDescriptor,
  IpcArrayHandle,
  openIpcHandle,
} from "../../src/doors/interop.js";
import { createCudaDriver } from "../../src/driver/cuda/cuda-driver.js";
import { Device, DeviceArray } from "../../src/index.js";
import { whyNoGpu } from "../conformance/gpu-presence.js";
import { givenUpPromises } from "../process/ipc/given-up-promises.js";
import { Actor } from "../support/actor.js";
import {
  type CountingDriver,
  createCountingDriver,
  type LiveCounts,
} from "../support/live-counts.js";
import { soon } from "../support/until.js";

const ACTORS = "../process/ipc/actors";
const SHARES = new URL(`${ACTORS}/shares-array.js`, import.meta.url);
const OPENS = new URL(`${ACTORS}/opens-array.js`, import.meta.url);
const RECORDS = new URL(`${ACTORS}/records-event.js`, import.meta.url);
const GPU = "cuda:0";

interface Shared {
  readonly whole: ArrayHandleDocument;
  readonly part: ArrayHandleDocument;
}

let counting: CountingDriver;
let device: Device;
let before: LiveCounts;

function withDevice(): void {
  beforeEach(() => {
    counting = createCountingDriver(createCudaDriver());
    before = counting.counts();
    device = Device.open(GPU, () => counting.driver);
  });
  afterEach(() => {
    device.close();
    assert.deepEqual(counting.counts(), before);
  });
}

function refused(codes: readonly ErrorCode[], attempt: () => unknown): void {
  assert.throws(attempt, (error) => {
    assert.ok(error instanceof CudaIpcError && codes.includes(error.code), String(error));
    return true;
  });
}

/** Accepts a result, or one of our errors. The run's report says which one it was. */
function tell(t: TestContext, what: string, attempt: () => { close(): void }): void {
  try {
    attempt().close();
    t.diagnostic(`${what}: does it`);
  } catch (error) {
    assert.ok(error instanceof CudaIpcError, String(error));
    t.diagnostic(`${what}: ${error.code}: ${error.message}`);
  }
}

async function sharer(): Promise<{ actor: Actor; shared: Shared }> {
  const actor = new Actor(SHARES, { args: [GPU] });
  return { actor, shared: (await actor.says()) as Shared };
}

async function kill(actor: Actor): Promise<void> {
  actor.kill("SIGKILL");
  await actor.exited();
  await actor[Symbol.asyncDispose]();
}

const open = (json: unknown) => IpcArrayHandle.from(json).open(device);

describe("arrays by handle on a GPU", { skip: whyNoGpu() ?? false }, () => {
  withDevice();

  it("are the same memory in another process, slices with their offset", async () => {
    using array = DeviceArray.allocate(device, {
      dtype: "int32",
      shape: [1_000_000],
      mechanism: "legacy",
    });
    const values = Int32Array.from({ length: 1_000_000 }, (_, i) => i);
    await array.write(values);
    const slice = IpcArrayHandle.of(array.slice({ start: 999_990 }));
    await using actor = new Actor(OPENS, { args: [GPU, JSON.stringify(slice)] });
    assert.deepEqual(await actor.says(), [...values.subarray(999_990)]);
    assert.equal(await actor.exited(), 0);
    values.set(
      values.subarray(999_990).map((value) => value * 2),
      999_990,
    );
    assert.deepEqual(await array.read(), values);
  });

  it("open twice at one address, the second time in microseconds", async (t) => {
    const { actor, shared } = await sharer();
    await using _ = actor;
    const handle = IpcArrayHandle.from(shared.whole);
    using whole = handle.open(device, { access: "read-write" }).expectDType("int32");
    {
      using part = open(shared.part);
      assert.deepEqual([...(await part.read())], [11, 9, 7, 17, 15, 13]);
      assert.equal(part.buffer.pointer, whole.buffer.pointer);
    }
    await whole.write(Int32Array.from({ length: 24 }, (_, i) => -i));
    const rounds = 100_000;
    const startMs = performance.now();
    for (let i = 0; i < rounds; i += 1) handle.open(device, { access: "read-write" }).close();
    t.diagnostic(
      `opened and closed again in ${((performance.now() - startMs) * 1000) / rounds} us`,
    );
    assert.equal((await whole.read())[23], -23);
  });

  it("are refused in their own process, as JSON and as bytes", (t) => {
    using array = DeviceArray.allocate(device, { dtype: "int8", shape: [8], mechanism: "legacy" });
    const { handle } = IpcArrayHandle.of(array).toJSON();
    refused(["OWN_HANDLE"], () => open(IpcArrayHandle.of(array).toJSON()));
    refused(["OWN_HANDLE"], () => openIpcHandle(device, handle, { dtype: "int8", shape: [8] }));
    // This package no longer knows this handle, so the driver itself must refuse it.
    array.close();
    tell(t, "own handle of freed memory", () =>
      openIpcHandle(device, handle, { dtype: "int8", shape: [8] }),
    );
    using other = DeviceArray.allocate(device, { dtype: "int8", shape: [8] });
    refused(["UNSUPPORTED"], () => device.driver.exportLegacy(0, other.buffer.pointer));
  });

  it("are refused if the bytes are no handle", async (t) => {
    const options = { dtype: "int8", shape: [8] } as const;
    for (const byteLength of [0, 63, 64, 65, 66]) {
      refused(["INVALID_HANDLE"], () => openIpcHandle(device, new Uint8Array(byteLength), options));
    }
    const { actor, shared } = await sharer();
    await using _ = actor;
    const bytes = Buffer.from(shared.whole.handle, "base64");
    t.diagnostic(`a handle of process ${actor.pid}: ${bytes.toString("hex")}`);
    assert.equal(bytes.readUInt32LE(8), actor.pid, "the process number is at byte 8");
    for (const at of [0, 8, 16, 24, 28, 40, 63]) {
      const damaged = Buffer.from(bytes);
      damaged[at] = (damaged[at] ?? 0) ^ 0x41;
      tell(t, `byte ${at} changed`, () => openIpcHandle(device, damaged, options));
    }
    using array = open(shared.whole);
    assert.equal((await array.read())[1], 1);
  });

  it("are refused after their process was killed", async () => {
    const { actor, shared } = await sharer();
    using array = open(shared.whole);
    await kill(actor);
    array.close();
    refused(["STALE_HANDLE"], () => open(shared.whole));
    refused(["INVALID_HANDLE"], () =>
      openIpcHandle(device, shared.whole.handle, { dtype: "int32", shape: [24] }),
    );
  });

  it("open the memory that is there now, as raw bytes of freed memory", async (t) => {
    const { actor, shared } = await sharer();
    await using _ = actor;
    actor.goOn();
    await actor.says();
    tell(t, "a raw handle of freed memory", () =>
      openIpcHandle(device, shared.whole.handle, { dtype: "int32", shape: [24] }),
    );
  });
});

describe("objects on a GPU that their exporter closed", { skip: whyNoGpu() ?? false }, () => {
  withDevice();
  givenUpPromises({ name: GPU, device: () => device });
});

describe("events by handle on a GPU", { skip: whyNoGpu() ?? false }, () => {
  withDevice();

  it("make CPUs and streams of another process wait until they are done", async () => {
    await using actor = new Actor(RECORDS, { args: [GPU] });
    using event = Event.import(device, await actor.says());
    using stream = device.createStream();
    await assert.rejects(event.synchronize(), { code: "EVENT_NOT_RECORDED" });
    refused(["EVENT_NOT_RECORDED"], () => stream.wait(event));
    actor.goOn();
    event.announce(await actor.says());
    stream.wait(event);
    assert.deepEqual([event.done, stream.isIdle()], [false, false]);
    await assert.rejects(event.synchronize({ timeoutMs: 20 }), { code: "TIMEOUT" });
    actor.goOn();
    await soon("the event is done", event.synchronize());
    await soon("the stream is idle", stream.synchronize());
    refused(["UNSUPPORTED"], () => event.record(stream));
    await actor.says();
    actor.goOn();
    const next = (await actor.says()) as EventDescriptor;
    using newer = Event.import(device, next);
    await soon("the next event is done", newer.synchronize());
    await assert.rejects(event.synchronize(), { code: "STALE_HANDLE" });
  });

  it("end the waits of CPUs with PEER_GONE if their process is killed", async (t) => {
    const actor = new Actor(RECORDS, { args: [GPU] });
    await actor.says();
    actor.goOn();
    const descriptor = await actor.says();
    using event = Event.import(device, descriptor);
    const waiting = event.synchronize().then(
      () => "done",
      (error: CudaIpcError) => error.code,
    );
    await kill(actor);
    const outcome = await soon("the wait ends", waiting);
    t.diagnostic(`a wait for an event whose process was killed: ${outcome}`);
    assert.equal(outcome, "PEER_GONE");
    refused(["STALE_HANDLE"], () => Event.import(device, descriptor));
    tell(t, "a bare handle of an event whose process was killed", () => {
      const bytes = Buffer.from((descriptor as EventDescriptor).handle, "base64");
      const imported = device.driver.importEvent(0, bytes);
      return { close: () => device.driver.destroyEvent(imported) };
    });
  });

  it("are refused in their own process, and if the bytes are no handle", () => {
    using event = device.createEvent();
    refused(["OWN_HANDLE"], () => Event.import(device, event.export()));
    for (const byteLength of [0, 63, 64, 65]) {
      refused(["INVALID_HANDLE"], () => device.driver.importEvent(0, new Uint8Array(byteLength)));
    }
  });
});
