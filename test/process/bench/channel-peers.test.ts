/**
 * The programs in C know the layout of channels, exchange messages with this package, and compute
 * what its kernels compute.
 */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { CPrograms } from "../../../bench/c-programs.js";
import type { Program } from "../../../bench/processes.js";
import { LINE_BYTES } from "../../../src/base/timeline-line.js";
import {
  type ChannelShape,
  createParts,
  exportParts,
  openReaderParts,
  type WriterParts,
} from "../../../src/channel/channel-parts.js";
import { ChannelReader } from "../../../src/channel/channel-reader.js";
import { ChannelWriter } from "../../../src/channel/channel-writer.js";
import { affineKernel, iotaKernel } from "../../../src/driver/cuda/kernels/map-kernels.js";
import { Device } from "../../../src/gpu/device.js";
import { DeviceBuffer } from "../../../src/gpu/memory/device-buffer.js";
import type { OwnedFd } from "../../../src/os/owned-fd.js";
import { beginSeat } from "../../../src/ring/channel-end.js";
import * as layout from "../../../src/ring/channel-layout.js";
import { wordsFile } from "../../support/channel-site.js";
import { checkLeaks } from "../../support/leak-check.js";
import { PtxKernel } from "../../support/ptx-machine.js";
import { TestFolder } from "../../support/test-folder.js";
import { soon } from "../../support/until.js";

const compiler = ["cc", "gcc", "clang"].find((name) => spawnSync(name, ["--version"]).status === 0);
const noCompiler = compiler === undefined ? "no C compiler" : false;

const shape: ChannelShape<"uint8"> = {
  dtype: "uint8",
  shape: [128],
  slotBytes: 128,
  slotStride: 128,
  slots: 4,
  readersMax: 3,
  metaBytesMax: 100,
  whenFull: "wait",
  whenWriterGone: "end",
};
const MESSAGES = 3000;

/** A channel without a hub, with all the descriptors that a hub would hold. */
class Channel {
  readonly device = Device.open("host");
  readonly parts: WriterParts<"uint8">;
  readonly fds: readonly OwnedFd[];

  constructor() {
    const buffer = DeviceBuffer.allocate(this.device, layout.memorySlots(shape) * shape.slotStride);
    this.parts = createParts("peers", buffer, shape);
    this.fds = [buffer.exportFd(), ...exportParts(this.parts)];
  }

  /** The descriptors that a hub passes to the reader of a seat. */
  readerFds(place: number): OwnedFd[] {
    const [memory, control, roomBell] = this.fds as [OwnedFd, OwnedFd, OwnedFd];
    const [page, bell] = this.fds.slice(3 + 2 * place) as [OwnedFd, OwnedFd];
    beginSeat(wordsFile(page), place + 1);
    return [memory, control, roomBell, page, bell];
  }

  [Symbol.dispose](): void {
    for (const fd of this.fds) fd.close();
    this.device.close();
  }
}

/** Starts a C program that inherits the descriptors from 3 on. */
function start(program: Program | string, fds: readonly OwnedFd[]) {
  if (typeof program === "string") assert.fail(program);
  const stdio = ["ignore", "pipe", "inherit", ...fds.map((fd) => fd.number)] as const;
  const child = spawn(program.command, program.args, { stdio: [...stdio] });
  assert.ok(child.stdout);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    line: async () => (await soon("a line of the program in C", lines.next())).value,
    ended: once(child, "close"),
  };
}

describe("the programs in C", { skip: noCompiler }, () => {
  checkLeaks();

  it("have the layout of src/ring/channel-layout.ts", () => {
    using c = new CPrograms("host");
    const program = c.programWith("channel-layout", []);
    if (typeof program === "string") assert.fail(program);
    const { sizes, whenFullPolicies, ...found } = JSON.parse(
      spawnSync(program.command, program.args, { encoding: "utf8" }).stdout,
    );
    const { control, header, page, writerStates, readerStates, readerModes, ...rest } = layout;
    const { MAGIC, CHANNEL_VERSION, PAGE_BYTES, READY_LINES, CLAIMS, RANK_MAX, HEADERS_AT } = rest;
    const numbers = {
      CHANNEL_VERSION,
      LINE_BYTES,
      PAGE_BYTES,
      READY_LINES,
      CLAIMS,
      RANK_MAX,
      HEADERS_AT,
    };
    const tables = { control, header, page, writerStates, readerStates, readerModes };
    assert.deepEqual(found, { ...tables, ...numbers, MAGIC: [...MAGIC] });
    assert.deepEqual(Object.keys(whenFullPolicies), layout.whenFullPolicies);
    assert.deepEqual(Object.values(whenFullPolicies), [...layout.whenFullPolicies.keys()]);
    assert.ok(sizes.length > 10);
    for (const [slots, metaBytesMax, headerStride, controlBytes, window] of sizes) {
      assert.equal(headerStride, layout.headerStrideOf(metaBytesMax));
      assert.equal(controlBytes, layout.controlByteLength({ slots, metaBytesMax }));
      assert.equal(window, layout.windowOf(slots));
    }
  });

  it("read what this package writes, and both sides sleep and wake", async () => {
    using c = new CPrograms("host");
    using channel = new Channel();
    const reader = start(
      c.programWith("channel-peer", ["read", String(MESSAGES)]),
      channel.readerFds(1),
    );
    assert.equal(await reader.line(), "attached");
    using writer = new ChannelWriter(channel.parts, () => {});
    for (let i = 0; i < MESSAGES; i += 1) {
      using slot = await soon("a slot", writer.loan());
      const words = new DataView(slot.bytes.buffer, slot.bytes.byteOffset, slot.bytes.byteLength);
      words.setUint32(0, i, true);
      // Each message has another length, down to one word.
      const byteLength = 4 * (1 + (i % 32));
      words.setUint32(byteLength - 4, i, true);
      slot.commit({ byteLength });
    }
    assert.equal(writer.readers, 1);
    assert.equal(await reader.line(), String(MESSAGES));
    assert.deepEqual(await soon("its end", reader.ended), [0, null]);
  });

  it("write what this package reads, up to the end of the channel", async () => {
    using c = new CPrograms("host");
    using channel = new Channel();
    const memory = channel.parts.memory.buffer.twin();
    const given = { fds: channel.readerFds(2), seat: 2, lease: 3 };
    using reader = new ChannelReader(
      openReaderParts("peers", memory, shape, given),
      { from: "oldest" },
      () => {},
    );
    const writer = start(c.programWith("channel-peer", ["write", String(MESSAGES)]), channel.fds);
    for (let i = 0; i < MESSAGES; i += 1) {
      using slot = await soon("a message", reader.next());
      assert.ok(slot);
      const words = new DataView(slot.bytes.buffer, slot.bytes.byteOffset, slot.bytes.byteLength);
      assert.deepEqual([slot.sequence, slot.byteLength, slot.missed], [i, 128, 0]);
      assert.deepEqual([words.getUint32(0, true), words.getUint32(124, true)], [i, i]);
      assert.ok(Math.abs(slot.timestampMs - Date.now()) < 60_000);
    }
    assert.equal(await soon("the end", reader.next()), undefined);
    assert.deepEqual(await soon("its end", writer.ended), [0, null]);
    channel.parts.close();
    channel.parts.roomBell.close();
  });

  it("compute the same results as the kernels of this package", () => {
    using folder = new TestFolder();
    const header = fileURLToPath(new URL("../../../../bench/c/kernels.h", import.meta.url));
    const source = `#include <stdio.h>\n#include "${header}"\nint main(void) { fputs(kernel_source, stdout); }\n`;
    writeFileSync(`${folder.path}/print.c`, source);
    const [from, to] = [`${folder.path}/print.c`, `${folder.path}/print`];
    assert.equal(spawnSync(compiler as string, ["-o", to, from]).status, 0);
    const theirs = PtxKernel.parse(spawnSync(to, { encoding: "utf8" }).stdout);
    const ours = PtxKernel.parse(`${iotaKernel("f32")}${affineKernel("f32")}`);
    assert.deepEqual([...theirs.keys()], ["iota", "affine"]);
    assert.deepEqual(run(theirs, "iota", "affine"), run(ours, "iota_f32", "affine_f32"));
  });
});

/**
 * Counts up in one half of some memory and computes from there into the other half, with fewer
 * threads than elements.
 */
function run(kernels: ReadonlyMap<string, PtxKernel>, iota: string, affine: string): Float32Array {
  const COUNT = 40;
  const floats = new Float32Array(2 * COUNT);
  const view = new DataView(floats.buffer);
  const memory = { at: (address: bigint) => ({ view, offset: Number(address) - 4096 }) };
  const u64 = (value: number) => new Uint8Array(BigUint64Array.of(BigInt(value)).buffer);
  const f32 = (value: number) => new Uint8Array(Float32Array.of(value).buffer);
  kernels.get(iota)?.run(2, 8, [u64(4096), u64(COUNT), f32(17), f32(0.5)], memory);
  kernels
    .get(affine)
    ?.run(2, 8, [u64(4096 + 4 * COUNT), u64(4096), u64(COUNT), f32(3), f32(-1)], memory);
  assert.equal(floats[COUNT + 7], 3 * (17 + 3.5) - 1);
  return floats;
}
