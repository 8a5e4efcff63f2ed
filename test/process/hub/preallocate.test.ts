/** `preallocate` takes the pages of new memory before the object has its name. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { constants } from "node:os";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import type { Hub } from "../../../src/client/hub.js";
import { interceptLibc } from "../../../src/ffi/intercept-libc.js";
import { MemoryPool } from "../../../src/gpu/memory/memory-pool.js";
import { checkLeaks } from "../../support/leak-check.js";
import { memoryFiles, pagesAfter, pagesOf } from "../../support/memory-pages.js";
import { TestFolder } from "../../support/test-folder.js";
import { TestHub } from "../../support/test-hub.js";

const MiB = 1024 * 1024;
const SHAPE = { dtype: "uint8", shape: [48 * MiB] } as const;
const BUNDLE = { a: { dtype: "uint8", shape: [MiB] }, b: { dtype: "int8", shape: [3] } } as const;
const CHANNEL = { dtype: "uint8", shape: [MiB], slots: 2, metaBytesMax: 4096 } as const;

/** Runs `create` and calls `act` before the piece from this byte on; it may return an errno. */
async function atPiece<T>(
  byteOffset: number,
  act: () => number | undefined,
  create: () => Promise<T>,
): Promise<T> {
  const undo = interceptLibc((call, [, , offset]) =>
    call === "fallocate" && offset === byteOffset ? act() : undefined,
  );
  try {
    return await create();
  } finally {
    undo();
  }
}

async function nothingIsLeft(hub: Hub, before: ReadonlySet<number>): Promise<void> {
  assert.equal(pagesOf(before).files, 0);
  assert.deepEqual(await hub.list({ all: true }), []);
}

describe("preallocate", () => {
  checkLeaks();

  it("has all pages before the first write, and without it create has none", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const without = await pagesAfter(() => hub.create("frame", SHAPE));
    assert.deepEqual(without, { files: 1, byteLength: 48 * MiB, takenBytes: 0 });
    const none = await pagesAfter(() => hub.create("frame", { ...SHAPE, preallocate: false }));
    assert.equal(none.takenBytes, 0);
    const all = await pagesAfter(() => hub.create("frame", { ...SHAPE, preallocate: true }));
    assert.deepEqual(all, { files: 1, byteLength: 48 * MiB, takenBytes: 48 * MiB });
  });

  it("works for bundles, for put and load, and for all files of a channel", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using folder = new TestFolder();
    writeFileSync(folder.file("some.bin"), Buffer.alloc(MiB));
    const kinds = {
      bundle: () => hub.createBundle("x", BUNDLE, { preallocate: true }),
      put: () => hub.put("x", new Uint8Array(MiB), { preallocate: true }),
      load: () => hub.load("x", folder.file("some.bin"), { preallocate: true }),
      channel: () => hub.createChannel("x", { ...CHANNEL, preallocate: true }),
    };
    for (const [kind, create] of Object.entries(kinds)) {
      const { byteLength, takenBytes } = await pagesAfter(create);
      assert.ok(byteLength >= MiB, kind);
      assert.ok(takenBytes >= byteLength, kind);
    }
    const { byteLength, takenBytes } = await pagesAfter(() => hub.createChannel("x", CHANNEL));
    assert.ok(takenBytes < byteLength / 2);
  });

  it("charges the same bytes, and shares zeroed memory that others read", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const shape = { dtype: "uint8", shape: [MiB] } as const;
    const plain = await hub.create("plain", shape);
    const { hostBytes } = await hub.status();
    plain.close();
    using array = await hub.create("frame", { ...shape, preallocate: true });
    assert.equal((await hub.status()).hostBytes, hostBytes);
    await array.publish();
    await using other = await testHub.connect();
    using opened = await other.open("frame");
    assert.ok(opened.view().every((value) => value === 0));
  });

  it("throws OUT_OF_MEMORY and leaves nothing if the pages are not there", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const before = new Set(memoryFiles().keys());
    const options = { ...SHAPE, preallocate: true } as const;
    const fail = () => constants.errno.ENOSPC;
    await assert.rejects(
      atPiece(32 * MiB, fail, () => hub.create("frame", options)),
      {
        code: "OUT_OF_MEMORY",
        message:
          'Cannot create "frame": only 33554432 of its 50331648 bytes could be preallocated: ' +
          "fallocate failed with ENOSPC",
      },
    );
    await nothingIsLeft(hub, before);
    const small = { ...CHANNEL, preallocate: true };
    await assert.rejects(
      atPiece(0, fail, () => hub.createChannel("frame", small)),
      (error) => hasCode(error, "OUT_OF_MEMORY"),
    );
    await nothingIsLeft(hub, before);
  });

  it("asks between pieces whether the rest is there, before the kernel ends the process", async (t) => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const before = new Set(memoryFiles().keys());
    const info = { freeBytes: 4096, totalBytes: MiB };
    t.mock.method(hub.device().driver, "memoryInfo", () => info);
    await assert.rejects(hub.create("frame", { ...SHAPE, preallocate: true }), {
      code: "OUT_OF_MEMORY",
      message:
        'Cannot create "frame": only 16777216 of its 50331648 bytes could be preallocated: ' +
        "4096 bytes are available",
    });
    await nothingIsLeft(hub, before);
  });

  it("ends in the middle with ABORTED, and with CLOSED if the hub is closed", async () => {
    await using testHub = await TestHub.start();
    await using other = await testHub.connect();
    await using hub = await testHub.connect();
    const before = new Set(memoryFiles().keys());
    const controller = new AbortController();
    const options = { ...SHAPE, preallocate: true } as const;
    const abort = () => void controller.abort();
    await assert.rejects(
      atPiece(16 * MiB, abort, () =>
        hub.create("frame", { ...options, signal: controller.signal }),
      ),
      { code: "ABORTED", message: 'Cannot create "frame": aborted' },
    );
    await nothingIsLeft(other, before);
    const close = () => void hub.close();
    await assert.rejects(
      atPiece(16 * MiB, close, () => hub.create("frame", options)),
      (error) => hasCode(error, "CLOSED"),
    );
    await nothingIsLeft(other, before);
  });

  it("counts toward the time of put", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const put = () => hub.put("frame", new Uint8Array(1), { preallocate: true, timeoutMs: 0 });
    await assert.rejects(put(), {
      code: "TIMEOUT",
      message: 'Cannot put "frame": not done within 0 ms',
    });
  });

  it("is refused with a pool", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using pool = MemoryPool.create(hub.device(), { maxBytes: 64 * MiB });
    await assert.rejects(hub.create("frame", { ...SHAPE, pool, preallocate: true }), {
      name: "TypeError",
      message: 'Cannot create "frame": pass either pool or preallocate, not both',
    });
  });
});
