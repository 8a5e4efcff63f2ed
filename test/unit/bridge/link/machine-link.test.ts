/** ALONE: libucp changes the process that loads it. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { describe, it } from "node:test";
import type { CudaIpcError } from "../../../../src/base/errors.js";
import { defaults } from "../../../../src/base/limits.js";
import { FrameSeal } from "../../../../src/bridge/link/frame-seal.js";
import type { LinkServer } from "../../../../src/bridge/link/link-server.js";
import { MachineLink } from "../../../../src/bridge/link/machine-link.js";
import { UcxContext } from "../../../../src/ucx/ucx-context.js";
import { memoryOf, UcxWorker } from "../../../../src/ucx/ucx-worker.js";
import { skipWithoutUcx } from "../../../support/machines/engines.js";
import { soon } from "../../../support/until.js";

process.env.UCX_TLS = "tcp";

const hello = new TextEncoder().encode(JSON.stringify({ id: 1, op: "hello" }));

describe("MachineLink", () => {
  it("ends when the other machine goes on to talk, and takes no bytes", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    let nowMs = 0;
    t.mock.method(performance, "now", () => nowMs);
    let talk = () => {};
    let heard = 0;
    const worker = {
      dropUnasked: () => {},
      receive: () => ({
        byteLength: new Promise<number>((resolve) => {
          if (heard === 0) talk = () => resolve(hello.byteLength);
          heard += 1;
        }),
        cancel: () => {},
      }),
      send: (_: unknown, tag: bigint) => (tag === 1n ? Promise.resolve() : new Promise(() => {})),
      close: () => {},
    } as unknown as UcxWorker;
    const opened = { head: hello, bytes: new Uint8Array(0) };
    const seal = {
      open: () => opened,
      seal: (head: Uint8Array) => head,
      close: () => {},
    } as unknown as FrameSeal;
    const server = { answer: async () => ({}) } as unknown as LinkServer;
    const link = new MachineLink("silent", worker, seal, server);
    link
      .sendBytes(memoryOf(new Uint8Array(new ArrayBuffer(8))), "8000000000000000")
      .catch(() => {});
    nowMs = defaults.machineSilenceMs - 1;
    const before = heard;
    talk();
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(heard, before + 1);
    t.mock.timers.tick(5000);
    assert.ok(link.open);
    nowMs += 1;
    t.mock.timers.tick(1);
    assert.equal(link.open, false);
    link.onEnd((reason) => assert.match(reason.message, /"silent": it has sent or taken nothing/));
  });

  it("ends on a message that is neither a frame nor bytes, which UCX would keep", {
    skip: skipWithoutUcx(),
  }, async () => {
    using context = UcxContext.open("lo");
    using hostile = UcxWorker.create(context);
    const worker = UcxWorker.create(context);
    worker.connect(hostile.address, () => {});
    hostile.connect(worker.address, () => {});
    const seal = new FrameSeal([randomBytes(32), randomBytes(32)], "answered");
    const link = new MachineLink("hostile", worker, seal, {} as LinkServer);
    const ended = new Promise<CudaIpcError>((resolve) => link.onEnd(resolve));
    await hostile.send(memoryOf(new Uint8Array(new ArrayBuffer(8))), 2n);
    assert.equal((await soon("the link ends", ended)).code, "UNTRUSTED_PEER");
  });
});
