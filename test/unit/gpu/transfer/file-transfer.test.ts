import assert from "node:assert/strict";
import { existsSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { beforeEach, describe, it } from "node:test";
import { hasCode } from "../../../../src/base/errors.js";
import { limits } from "../../../../src/base/limits.js";
import { Device } from "../../../../src/gpu/device.js";
import { DeviceBuffer } from "../../../../src/gpu/memory/device-buffer.js";
import {
  type FileSection,
  readFileInto,
  writeFileFrom,
} from "../../../../src/gpu/transfer/file-transfer.js";
import { Disposables } from "../../../support/disposables.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { TestFolder } from "../../../support/test-folder.js";

const LENGTH = 9 * 1024 * 1024 + 3;

describe("file transfers", () => {
  let made = new Disposables();
  let handles: FileHandle[] = [];
  checkLeaks(async () => {
    for (const handle of handles) await handle.close();
    made.end();
  });
  let folder: TestFolder;
  let device: Device;
  const content = Buffer.alloc(LENGTH + 100, "0123456789abcdef!");
  beforeEach(() => {
    made = new Disposables();
    handles = [];
    folder = made.add(new TestFolder());
    device = made.add(Device.open("host"));
    writeFileSync(folder.file("in.bin"), content);
  });

  async function section(
    path: string,
    flags: string,
    byteOffset: number,
    byteLength: number,
  ): Promise<FileSection> {
    const file = await open(path, flags);
    handles.push(file);
    return { file, fileName: path, byteOffset, byteLength };
  }

  /** Own memory, which the kernel fills, and imported memory, which the thread pool fills. */
  function buffers(byteLength = LENGTH): { kind: string; buffer: DeviceBuffer }[] {
    const own = made.add(DeviceBuffer.allocate(device, byteLength + 10, { label: "own" }));
    const origin = made.add(DeviceBuffer.allocate(device, byteLength + 10, { label: "origin" }));
    using fd = origin.exportFd();
    const { allocationByteLength } = origin;
    const sizes = { byteLength: origin.byteLength, allocationByteLength };
    const options = { label: "imported", ...sizes, access: "read-write" } as const;
    return [
      { kind: "own", buffer: own },
      { kind: "imported", buffer: made.add(DeviceBuffer.import(device, fd, options)) },
    ];
  }

  it("read a section of a file into memory and write it back, and touch nothing else", async () => {
    for (const { kind, buffer } of buffers()) {
      const progress: number[] = [];
      const from = await section(folder.file("in.bin"), "r", 7, LENGTH);
      await readFileInto(buffer, 5, from, { onProgress: (doneBytes) => progress.push(doneBytes) });
      assert.equal(progress.at(-1), LENGTH);
      const bytes = new Uint8Array(LENGTH + 10);
      await buffer.read(0, bytes);
      assert.ok(
        Buffer.from(bytes.subarray(5, 5 + LENGTH)).equals(content.subarray(7, 7 + LENGTH)),
        kind,
      );
      assert.ok(
        [...bytes.subarray(0, 5), ...bytes.subarray(5 + LENGTH)].every((byte) => byte === 0),
      );
      const out = folder.file(`${kind}.bin`);
      await writeFileFrom(buffer, 5, await section(out, "w", 3, LENGTH));
      assert.ok(
        readFileSync(out)
          .subarray(3)
          .equals(content.subarray(7, 7 + LENGTH)),
      );
    }
  });

  it("throw INVALID_FILE with the file's name if the file ends early", async () => {
    for (const { buffer } of buffers()) {
      const short = await section(folder.file("in.bin"), "r", 200, LENGTH);
      await assert.rejects(
        readFileInto(buffer, 0, short),
        (error) => hasCode(error, "INVALID_FILE") && /in\.bin/.test(error.message),
      );
    }
  });

  it("throw INVALID_FILE if the file is truncated while it is read", async () => {
    // Longer than all lanes take at a time, so pieces are left when the first is done.
    const longBytes = (limits.transferLanes + 4) * limits.stagingBytes;
    for (const { buffer } of buffers(longBytes)) {
      writeFileSync(folder.file("long.bin"), "");
      truncateSync(folder.file("long.bin"), longBytes);
      const long = await section(folder.file("long.bin"), "r", 0, longBytes);
      const onProgress = () => truncateSync(folder.file("long.bin"), 1000);
      await assert.rejects(readFileInto(buffer, 0, long, { onProgress }), (error) =>
        hasCode(error, "INVALID_FILE"),
      );
    }
  });

  it("throw DISK_FULL if the disk is full", {
    skip: !existsSync("/dev/full"),
  }, async () => {
    for (const { buffer } of buffers()) {
      const target = await section("/dev/full", "w", 0, LENGTH);
      await assert.rejects(
        writeFileFrom(buffer, 0, target),
        (error) => hasCode(error, "DISK_FULL") && /\/dev\/full/.test(error.message),
      );
    }
  });

  it("refuse sections beyond the buffer, and reading into read-only memory", async () => {
    const [own] = buffers();
    const from = await section(folder.file("in.bin"), "r", 0, LENGTH);
    assert.ok(own !== undefined);
    await assert.rejects(readFileInto(own.buffer, 11, from), RangeError);
    await assert.rejects(writeFileFrom(own.buffer, 11, from), RangeError);
    using fd = own.buffer.exportFd();
    const { byteLength, allocationByteLength } = own.buffer;
    const options = { label: "reader", byteLength, allocationByteLength, access: "read" } as const;
    const reader = made.add(DeviceBuffer.import(device, fd, options));
    await assert.rejects(readFileInto(reader, 0, from), (error) => hasCode(error, "READ_ONLY"));
  });

  it("stop when they are aborted", async () => {
    for (const { buffer } of buffers()) {
      const from = await section(folder.file("in.bin"), "r", 0, LENGTH);
      const signal = AbortSignal.abort();
      await assert.rejects(readFileInto(buffer, 0, from, { signal }), (error) =>
        hasCode(error, "ABORTED"),
      );
      const to = await section(folder.file("out.bin"), "w", 0, LENGTH);
      await assert.rejects(writeFileFrom(buffer, 0, to, { signal }), (error) =>
        hasCode(error, "ABORTED"),
      );
    }
  });

  it("finish if the buffer is closed meanwhile", async () => {
    for (const { buffer } of buffers()) {
      const reading = readFileInto(buffer, 0, await section(folder.file("in.bin"), "r", 0, LENGTH));
      buffer.close();
      await reading;
    }
  });
});
