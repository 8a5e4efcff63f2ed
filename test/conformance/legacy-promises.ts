import assert from "node:assert/strict";
import { it } from "node:test";
import { IPC_HANDLE_BYTES } from "../../src/driver/event-calls.js";
import { LEGACY_GRANULARITY_BYTES } from "../../src/driver/legacy-calls.js";
import { noise } from "./conformance-rig.js";
import type { Subject } from "./describe-conformance.js";
import { assertRefused, noHandles, startExporter } from "./ipc-cases.js";

const SIZE = LEGACY_GRANULARITY_BYTES;

export function legacyPromises(subject: Subject): void {
  ownPromises(subject);
  importPromises(subject);
}

function ownPromises({ rig, createDriver }: Subject): void {
  it("is written and read, and refused beyond its end", async () => {
    const pointer = rig().legacy(2 * SIZE);
    const content = noise(4096, 3);
    await rig().write(pointer + BigInt(2 * SIZE - 4096), content);
    assert.deepEqual(await rig().read(pointer + BigInt(2 * SIZE - 4096), 4096), content);
    await assert.rejects(rig().write(pointer + BigInt(2 * SIZE - 4095), content), RangeError);
  });

  it("is refused in sizes that would share a block, and beyond the free memory", () => {
    const { driver } = rig();
    for (const byteLength of [0, -1, 4096, SIZE + 1, 1.5]) {
      assert.throws(() => driver.allocateLegacy(0, byteLength), RangeError);
    }
    assertRefused(() => driver.allocateLegacy(0, SIZE * 2 ** 29), "OUT_OF_MEMORY");
    assertRefused(() => driver.allocateLegacy(9, SIZE), "DEVICE_NOT_FOUND");
  });

  it("exports the handle of its block from any address in it, with the offset", () => {
    const pointer = rig().legacy(2 * SIZE);
    const whole = rig().driver.exportLegacy(0, pointer);
    assert.equal(whole.handle.byteLength, IPC_HANDLE_BYTES);
    assert.deepEqual([whole.blockByteLength, whole.byteOffset], [2 * SIZE, 0]);
    const part = rig().driver.exportLegacy(0, pointer + BigInt(SIZE + 12));
    assert.deepEqual(part, { ...whole, byteOffset: SIZE + 12 });
    assert.notDeepEqual(rig().driver.exportLegacy(0, rig().legacy()).handle, whole.handle);
  });

  it("other memory has no handle", () => {
    const { driver } = rig();
    assertRefused(() => driver.exportLegacy(0, rig().buffer(1).pointer), "UNSUPPORTED");
    assert.throws(() => driver.exportLegacy(0, 0x1000n), RangeError);
  });

  it("is refused in its own process, by every driver", () => {
    const { handle } = rig().driver.exportLegacy(0, rig().legacy());
    assertRefused(() => rig().driver.importLegacy(0, handle, "read"), "OWN_HANDLE");
    const other = createDriver();
    assertRefused(() => other.importLegacy(0, handle, "read-write"), "OWN_HANDLE");
    other.close();
  });

  it("is freed once, and only if it was allocated", () => {
    const { driver } = rig();
    const pointer = driver.allocateLegacy(0, SIZE);
    assert.throws(() => driver.freeLegacy(0, pointer + 4096n), RangeError);
    assert.throws(() => driver.closeLegacy(0, pointer), RangeError);
    driver.freeLegacy(0, pointer);
    assert.throws(() => driver.freeLegacy(0, pointer), RangeError);
    const stream = rig().stream();
    if (rig().kind === "host") {
      assert.throws(
        () => driver.fill(stream, pointer, { elementBytes: 1, value: 1 }, 1),
        RangeError,
      );
    }
  });
}

function importPromises({ rig }: Subject): void {
  it("of another process has its size, counts its imports, and is shared by both sides", async () => {
    const { driver } = rig();
    const { actor, memory, blockByteLength, byteOffset } = await startExporter(rig().kind);
    await using _ = actor;
    assert.deepEqual([blockByteLength, byteOffset], [2 * SIZE, 4096]);
    const first = driver.importLegacy(0, memory, "read-write");
    const second = driver.importLegacy(0, Uint8Array.from(memory), "read-write");
    assert.deepEqual([first.pointer, first.blockByteLength], [second.pointer, 2 * SIZE]);
    driver.closeLegacy(0, first.pointer);
    assert.deepEqual(
      [...(await rig().read(second.pointer + 4096n, 8))],
      [0xcd, 0xab, 0, 0, 0xcd, 0xab, 0, 0],
    );
    await rig().write(second.pointer, Uint8Array.of(7));
    actor.goOn();
    assert.equal(await actor.says(), 7);
    const beyond = second.pointer + BigInt(2 * SIZE - 8);
    await assert.rejects(rig().read(beyond, 16), RangeError);
    assertRefused(() => driver.exportLegacy(0, second.pointer), "UNSUPPORTED");
    assert.throws(() => driver.freeLegacy(0, second.pointer), RangeError);
    driver.closeLegacy(0, second.pointer);
    assert.throws(() => driver.closeLegacy(0, second.pointer), RangeError);
    const again = driver.importLegacy(0, memory, "read");
    assert.deepEqual([...(await rig().read(again.pointer, 1))], [7]);
    driver.closeLegacy(0, again.pointer);
    actor.goOn();
    assert.equal(await actor.exited(), 0);
  });

  it("refuses bytes that are no handle of memory", () => {
    for (const bytes of noHandles)
      assertRefused(() => rig().driver.importLegacy(0, bytes, "read"), "INVALID_HANDLE");
    assert.throws(() => rig().driver.importLegacy(0, "handle" as never, "read"), TypeError);
    const event = rig().driver.exportEvent(rig().event());
    assertRefused(
      () => rig().driver.importLegacy(0, event, "read"),
      "INVALID_HANDLE",
      "OWN_HANDLE",
    );
  });

  it("of a process that was killed is refused", async () => {
    const { actor, memory } = await startExporter(rig().kind);
    actor.kill("SIGKILL");
    await actor.exited();
    await actor[Symbol.asyncDispose]();
    assertRefused(
      () => rig().driver.importLegacy(0, memory, "read"),
      "INVALID_HANDLE",
      "STALE_HANDLE",
    );
  });
}
