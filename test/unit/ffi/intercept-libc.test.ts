import assert from "node:assert/strict";
import { constants } from "node:os";
import { describe, it } from "node:test";
import { interceptLibc, type LibcCall } from "../../../src/ffi/intercept-libc.js";
import { lastErrno, libc } from "../../../src/ffi/libc.js";
import { addressOf, copyMemory } from "../../../src/os/host-memory.js";
import { Mapping } from "../../../src/os/mapping.js";
import { createMemoryFile } from "../../../src/os/memory-file.js";
import { checkLeaks } from "../../support/leak-check.js";

const { EIO, ENOMEM } = constants.errno;

describe("interceptLibc", () => {
  checkLeaks();

  it("sees every call with its arguments, until it is removed", () => {
    const real = libc();
    const seen: [LibcCall, unknown][] = [];
    const undo = interceptLibc((call, [first]) => {
      seen.push([call, first]);
      return undefined;
    });
    libc().close(-1);
    undo();
    undo();
    libc().close(-2);
    assert.deepEqual(seen, [["close", -1]]);
    assert.equal(libc(), real);
  });

  it("makes a call fail with its errno, without calling it", () => {
    using file = createMemoryFile("whole", 4096);
    const undo = interceptLibc((call) => (call === "mmap" ? ENOMEM : undefined));
    try {
      assert.throws(() => Mapping.shared(file, 4096, "read"), {
        code: "OUT_OF_MEMORY",
        errnoName: "ENOMEM",
      });
      assert.equal(lastErrno(), ENOMEM);
    } finally {
      undo();
    }
    Mapping.shared(file, 4096, "read").close();
  });

  it("makes close() fail after it has closed", () => {
    const file = createMemoryFile("whole", 4096);
    const { number } = file;
    const undo = interceptLibc((call) => (call === "close" ? EIO : undefined));
    assert.throws(() => file.close(), { errnoName: "EIO" });
    undo();
    assert.equal(libc().close(number), -1, "it was closed before");
  });

  it("makes close() on the thread pool fail after it has closed", async () => {
    const number = createMemoryFile("whole", 4096).take();
    const undo = interceptLibc((call) => (call === "close" ? EIO : undefined));
    const result = await new Promise((resolve) => {
      libc().close.async(number, (_failure, result) => resolve(result));
    });
    undo();
    assert.equal(result, -1);
    assert.equal(libc().close(number), -1, "it was closed before");
  });

  it("passes calls on the thread pool through, or makes them fail there", async () => {
    const [to, from] = [new Uint8Array(1 << 20), new Uint8Array(1 << 20).fill(7)];
    let fails = false;
    const undo = interceptLibc((call) => (fails && call === "sendfile" ? ENOMEM : undefined));
    try {
      await copyMemory(addressOf(to), addressOf(from), to.byteLength);
      assert.deepEqual([to[0], to.at(-1)], [7, 7]);
      fails = true;
      const result = new Promise((resolve) => {
        libc().sendfile.async(-1, -1, null, 1, (_, count) => resolve([count, lastErrno()]));
      });
      assert.deepEqual(await result, [-1, ENOMEM]);
    } finally {
      undo();
    }
  });

  it("allows one interceptor at a time", () => {
    const undo = interceptLibc(() => undefined);
    assert.throws(() => interceptLibc(() => undefined), TypeError);
    undo();
    interceptLibc(() => undefined)();
  });
});
