import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { limits } from "../../../../src/base/limits.js";
import type { LentReader } from "../../../../src/bridge/link/link-server.js";
import type { MachineLink } from "../../../../src/bridge/link/machine-link.js";
import { type ExportParts, ExportServer } from "../../../../src/bridge/transfer/export-server.js";
import { IndexAccount } from "../../../../src/bridge/transfer/index-account.js";
import { PieceTurns } from "../../../../src/bridge/transfer/piece-turns.js";
import { addressOf } from "../../../../src/os/host-memory.js";
import type { CarriedMessage } from "../../../../src/wire/carried-frames.js";
import type { CallResult, LinkCall } from "../../../../src/wire/link-messages.js";
import { hostArray } from "../../../support/messages.js";
import { until } from "../../../support/until.js";

const OBJECT = 5;
const bytes = new Uint8Array(8);

/** Memory whose lanes are as many as are asked for. */
const buffer = {
  byteLength: bytes.byteLength,
  label: "frame",
  use: async (_mode: string, _options: object, work: (memory: unknown) => Promise<void>) => {
    type Take = (address: bigint) => Promise<void>;
    const lane = { downloadAt: (_: bigint, __: number, take: Take) => take(addressOf(bytes)) };
    const piece = { byteOffset: 0, byteLength: bytes.byteLength };
    const forEachPiece = (_: number, __: unknown, each: (...given: unknown[]) => Promise<void>) =>
      each(lane, piece);
    await work({ pointerAt: () => 0n, device: { lanes: { forEachPiece } } });
  },
};

/** A server whose other machine takes a piece only when it is told to. */
function served() {
  const rig = {
    opened: 0,
    closed: 0,
    sending: [] as (() => void)[],
    sent: 0,
    messages: [] as Omit<CarriedMessage, "kind">[],
    end: () => {},
  };
  const link = {
    open: true,
    onEnd: (listener: () => void) => {
      rig.end = listener;
    },
    bytesSeal: { seal: async () => ({ nonce: 1, mac: "00".repeat(16) }) },
    sendBytes: () =>
      new Promise<void>((resolve) => {
        rig.sent += 1;
        rig.sending.push(resolve);
      }),
    sendMessage: async (message: Omit<CarriedMessage, "kind">) => {
      rig.messages.push(message);
    },
  };
  const hub = {
    openAny: async () => {
      rig.opened += 1;
      return { object: OBJECT, buffer, close: () => (rig.closed += 1) };
    },
  };
  const parts = {
    hub,
    rule: {},
    serving: new Set(),
    indexes: new IndexAccount("x", 0),
    announced: (name: string) => ({ name, object: OBJECT, descriptor: hostArray }),
  } as unknown as ExportParts;
  const server = new ExportServer(parts, () => link as unknown as MachineLink);
  let id = 0;
  const call = <Result>(asked: object) => {
    id += 1;
    return server.answer({ ...asked, id } as LinkCall) as Promise<Result>;
  };
  const open = () => call<CallResult<"export">>({ op: "export", name: "frame", object: OBJECT });
  const send = (exported: number) => {
    const piece = { part: "data", byteOffset: 0, byteLength: 8, tag: "8000000000000000" };
    return call<CallResult<"send">>({ op: "send", export: exported, ...piece });
  };
  return { ...rig, rig, link, server, call, open, send };
}

describe("ExportServer", () => {
  it("sends few pieces of a link at a time, so that others have lanes", async () => {
    const { rig, open, send } = served();
    const { export: id } = await open();
    const pieces = Array.from({ length: 40 }, () => send(id));
    await until("pieces are sent", () => rig.sent >= PieceTurns.most);
    // Another link goes on meanwhile.
    const other = served();
    const { export: first } = await other.open();
    const piece = other.send(first);
    await until("the piece is sent", () => other.rig.sent === 1);
    assert.equal(rig.sent, PieceTurns.most);
    other.rig.sending.pop()?.();
    await piece;
    rig.sending.shift()?.();
    await until("the next piece is sent", () => rig.sent === PieceTurns.most + 1);
    await until("all are sent", () => {
      for (const taken of rig.sending.splice(0)) taken();
      return rig.sent === pieces.length;
    });
    for (const taken of rig.sending.splice(0)) taken();
    await Promise.all(pieces);
  });

  it("opens as many objects as a link may copy, and another when one has ended", async () => {
    const { rig, call, open } = served();
    const opened = [];
    for (let at = 0; at < limits.exportsPerLinkMax; at += 1) opened.push(await open());
    await assert.rejects(open(), { code: "LIMIT_EXCEEDED", message: /exportsPerLinkMax/ });
    await call({ op: "end", export: opened[0]?.export });
    await open();
    rig.end();
    assert.equal(rig.closed, rig.opened);
  });

  it("gives out a few large messages of a channel at a time, and ends them with it", async () => {
    const { rig, server, call, open, send } = served();
    let taken = 0;
    let held = 0;
    const reader = {
      label: "video",
      shape: [1],
      next: async () => {
        taken += 1;
        held += 1;
        const array = { buffer, layout: { byteOffset: 0 }, shape: [1] };
        const release = () => {
          held -= 1;
        };
        const meta = new Uint8Array();
        return { sequence: taken, byteLength: 1 << 20, array, meta, release };
      },
    };
    const channel = server.lend({ reader, close: () => {} } as unknown as LentReader);
    const most = limits.carriedMessagesMax;
    const read = call({ op: "read", channel, count: most });
    await until("as many come as were asked for", () => rig.messages.length === most);
    server.more({ kind: "more", read: rig.messages[0]?.read ?? 0, count: 1 });
    await assert.rejects(read, { code: "LIMIT_EXCEEDED", message: /carriedMessagesMax/ });
    assert.equal(taken, most, "a message was taken and lost");
    const [first, second] = rig.messages.map((it) => it.export);
    await call({ op: "end", export: first });
    const later = call({ op: "read", channel, count: 1 });
    await until("one more comes", () => rig.messages.length === most + 1);
    // Messages leave room for objects.
    for (let at = 0; at < limits.exportsPerLinkMax; at += 1) await open();
    const ended = assert.rejects(later, { code: "CLOSED" });
    await call({ op: "leave", channel });
    await ended;
    assert.equal(held, 0);
    await assert.rejects(send(second ?? 0), { code: "NOT_FOUND" });
  });

  it("closes a reader that is lent after the end of the link", () => {
    const { server, link } = served();
    let closed = 0;
    const lent = { reader: { label: "video" }, close: () => (closed += 1) };
    link.open = false;
    assert.throws(() => server.lend(lent as unknown as LentReader), { code: "CLOSED" });
    assert.equal(closed, 1);
  });
});
