import assert from "node:assert/strict";
import { it } from "node:test";
import { IPC_HANDLE_BYTES } from "../../src/driver/event-calls.js";
import { turns, until } from "./conformance-rig.js";
import type { Subject } from "./describe-conformance.js";
import { assertRefused, noHandles, startExporter } from "./ipc-cases.js";

export function eventPromises(subject: Subject): void {
  orderPromises(subject);
  handlePromises(subject);
}

function orderPromises({ rig }: Subject): void {
  it("is done once the stream has passed its recording, and not before", async () => {
    const { driver } = rig();
    const [words, stream, event] = [rig().words(), rig().stream(), rig().event()];
    rig().wait(stream, words, 0, 1n);
    driver.recordEvent(event, stream);
    await turns();
    assert.equal(driver.isEventDone(event), false);
    Atomics.store(words.cpu, 0, 1n);
    await rig().done(stream);
    assert.equal(driver.isEventDone(event), true);
  });

  it("is done, and holds no stream back, if it was never recorded", async () => {
    const event = rig().event();
    assert.equal(rig().driver.isEventDone(event), true);
    const stream = rig().stream();
    rig().driver.waitEvent(stream, event);
    await rig().done(stream);
  });

  it("holds a stream back until the recording made before the wait, and no later one", async () => {
    const { driver } = rig();
    const [words, first, second, waiter] = [
      rig().words(),
      rig().stream(),
      rig().stream(),
      rig().stream(),
    ];
    const event = rig().event();
    rig().wait(first, words, 0, 1n);
    driver.recordEvent(event, first);
    driver.waitEvent(waiter, event);
    driver.writeWord(waiter, words.pointer + 16n, 5n);
    rig().wait(second, words, 1, 1n);
    driver.recordEvent(event, second);
    await turns();
    assert.equal(driver.isIdle(waiter), false);
    assert.equal(Atomics.load(words.cpu, 2), 0n);
    Atomics.store(words.cpu, 0, 1n);
    await rig().done(first);
    await rig().done(waiter);
    assert.equal(Atomics.load(words.cpu, 2), 5n);
    assert.equal(driver.isEventDone(event), false);
  });

  it("is not done before its last recording, however many earlier ones are done", async () => {
    const { driver } = rig();
    const [words, first, last] = [rig().words(), rig().stream(), rig().stream()];
    const event = rig().event();
    rig().wait(first, words, 0, 1n);
    for (let i = 0; i < 3; i += 1) driver.recordEvent(event, first);
    rig().wait(last, words, 1, 1n);
    driver.recordEvent(event, last);
    Atomics.store(words.cpu, 0, 1n);
    await rig().done(first);
    await turns();
    assert.equal(driver.isEventDone(event), false);
    Atomics.store(words.cpu, 1, 1n);
    await rig().done(last);
    assert.equal(driver.isEventDone(event), true);
  });

  it("may hold the stream back until earlier recordings are done, and no longer", async () => {
    const { driver, kind } = rig();
    const [words, held, free] = [rig().words(), rig().stream(), rig().stream()];
    const event = rig().event();
    rig().wait(held, words, 0, 1n);
    for (let i = 0; i < 3; i += 1) driver.recordEvent(event, held);
    driver.recordEvent(event, free);
    // On a GPU it waits (measured). On the host device only the last recording counts.
    if (kind === "host") await rig().done(free);
    else await turns();
    if (driver.isEventDone(event)) assert.equal(driver.isIdle(free), true);
    assert.equal(driver.isIdle(held), false);
    if (kind === "host") assert.equal(driver.isEventDone(event), true);
    Atomics.store(words.cpu, 0, 1n);
    await rig().done(held);
    await rig().done(free);
    assert.equal(driver.isEventDone(event), true);
  });

  it("can be recorded repeatedly", async () => {
    const [stream, event] = [rig().stream(), rig().event()];
    for (let i = 0; i < 100; i += 1) {
      rig().driver.recordEvent(event, stream);
      rig().driver.waitEvent(stream, event);
    }
    await rig().done(stream);
    assert.equal(rig().driver.isEventDone(event), true);
  });

  it("throws CLOSED for every call after it was destroyed", () => {
    const { driver } = rig();
    const stream = rig().stream();
    const event = driver.createEvent(0);
    driver.destroyEvent(event);
    assertRefused(() => driver.isEventDone(event), "CLOSED");
    assertRefused(() => driver.recordEvent(event, stream), "CLOSED");
    assertRefused(() => driver.waitEvent(stream, event), "CLOSED");
    assertRefused(() => driver.exportEvent(event), "CLOSED");
    assertRefused(() => driver.destroyEvent(event), "CLOSED");
    assert.throws(() => driver.isEventDone({ ordinal: 0, imported: false }), TypeError);
  });
}

function handlePromises({ rig, createDriver }: Subject): void {
  it("has one handle, which its own process refuses, by every driver", () => {
    const event = rig().event();
    const handle = rig().driver.exportEvent(event);
    assert.equal(handle.byteLength, IPC_HANDLE_BYTES);
    assert.deepEqual(rig().driver.exportEvent(event), handle);
    assertRefused(() => rig().driver.importEvent(0, handle), "OWN_HANDLE");
    const other = createDriver();
    assertRefused(() => other.importEvent(0, handle), "OWN_HANDLE");
    other.close();
  });

  it("refuses bytes that are no handle of an event", () => {
    for (const bytes of noHandles)
      assertRefused(() => rig().driver.importEvent(0, bytes), "INVALID_HANDLE");
    const memory = rig().driver.exportLegacy(0, rig().legacy()).handle;
    assertRefused(() => rig().driver.importEvent(0, memory), "INVALID_HANDLE", "OWN_HANDLE");
  });

  it("of another process is waited for, by polling and by streams", async () => {
    const { driver } = rig();
    const { actor, event: handle } = await startExporter(rig().kind);
    await using _ = actor;
    const [event, twin] = [rig().importedEvent(handle), rig().importedEvent(handle)];
    const stream = rig().stream();
    driver.waitEvent(stream, twin);
    await turns();
    assert.equal(driver.isEventDone(event), false);
    assert.equal(driver.isIdle(stream), false);
    actor.goOn();
    await until("the event is done", () => driver.isEventDone(event));
    await rig().done(stream);
    await actor.says();
    actor.goOn();
    assert.equal(await actor.exited(), 0);
  });

  it("of another process is neither recorded nor exported", async () => {
    const { driver } = rig();
    const { actor, event: handle } = await startExporter(rig().kind);
    await using _ = actor;
    const event = rig().importedEvent(handle);
    assert.equal(event.imported, true);
    assertRefused(() => driver.recordEvent(event, rig().stream()), "UNSUPPORTED");
    assertRefused(() => driver.exportEvent(event), "UNSUPPORTED");
  });

  it("of a killed process is refused if the driver can tell", async () => {
    const { actor, event } = await startExporter(rig().kind);
    actor.kill("SIGKILL");
    await actor.exited();
    await actor[Symbol.asyncDispose]();
    const attempt = () => rig().driver.importEvent(0, event);
    if (rig().kind === "host") return assertRefused(attempt, "STALE_HANDLE");
    try {
      rig().driver.destroyEvent(attempt());
    } catch (error) {
      // Drivers of GPUs have accepted the handle; src/gpu/order/event.ts checks the process.
      assertRefused(() => {
        throw error;
      }, "INVALID_HANDLE");
    }
  });
}
