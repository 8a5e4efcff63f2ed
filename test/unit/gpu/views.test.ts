import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";

const VIEWS = new URL("./actors/keeps-views.js", import.meta.url);
const MOVES = new URL("./actors/moves-views.js", import.meta.url);
const FORGETS = new URL("./actors/forgets-buffer.js", import.meta.url);

describe("views", () => {
  checkLeaks();

  it("stay readable after buffer and device were closed, until they are collected", async () => {
    await using actor = new Actor(VIEWS, { execArgv: ["--expose-gc"] });
    assert.deepEqual(await actor.says(), { afterClose: 42, mapped: 4096, buffers: 0 });
    assert.deepEqual(await actor.says(), { mapped: 0 });
    assert.equal(await actor.exited(), 0, actor.complaint);
    assert.equal(actor.complaint, "");
  });

  it("cannot be moved, and can be used by all that takes bytes", async () => {
    await using actor = new Actor(MOVES, { execArgv: ["--expose-gc"] });
    const major = Number(process.versions.node.split(".")[0]);
    const absent = major < 21 ? ["undefined", 42] : ["TypeError", 42];
    const list = major < 21 ? undefined : ["DataCloneError", 42];
    assert.deepEqual(await actor.says(), {
      transfer: absent,
      transferToFixedLength: absent,
      // Node 20 copies memory that is not its own.
      structuredClone: list ?? ["object", 42],
      postMessage: list ?? ["undefined", 42],
      enqueue: ["TypeError", 42],
      enqueuePart: ["TypeError", 42],
      byobRead: ["TypeError", 42],
      respondWithNewView: ["TypeError", 42],
    });
    const used = (await actor.says()) as Record<string, number>;
    for (const [name, bytes] of Object.entries(used)) assert.equal(bytes, 4096, name);
    assert.deepEqual(await actor.says(), { done: true });
    assert.equal(await actor.exited(), 0, actor.complaint);
    assert.equal(actor.complaint, "");
  });
});

describe("a buffer that was never closed", () => {
  checkLeaks();

  it("is reported by name and closed when it is collected", async () => {
    await using actor = new Actor(FORGETS, { execArgv: ["--expose-gc"] });
    assert.deepEqual(await actor.says(), { mapped: 0, buffers: 0, fds: 0 });
    assert.match(actor.complaint, /CudaIpcLeak: Buffer "frame" was never closed/);
    assert.equal(await actor.exited(), 0);
  });
});
