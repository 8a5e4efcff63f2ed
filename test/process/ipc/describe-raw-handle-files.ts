/** Bare handles of 64 bytes in files, exchanged with a program in C that knows no other form. */
import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { beforeEach, describe, it } from "node:test";
import { CudaIpcError } from "../../../src/base/errors.js";
import { IpcArrayHandle } from "../../../src/doors/interop.js";
import { openShared, readHandleFile, writeHandleFile } from "../../../src/doors/peer.js";
import { Device, DeviceArray } from "../../../src/index.js";
import type { CProgram } from "../../support/c-program.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestFolder } from "../../support/test-folder.js";

const COUNT = 1024;
const raw = { format: "raw", dtype: "int32", shape: [COUNT] } as const;
const layout = { dtype: "int32", shape: [COUNT], mechanism: "legacy" } as const;
const counted = Int32Array.from({ length: COUNT }, (_, i) => i);
const negated = counted.map((it) => -it);

export interface RawFilesSubject {
  readonly device: "host" | "cuda:0";
  /** Writes and reads handles; see the head of test/process/ipc/c/handle.c. */
  readonly program: CProgram | string;
  readonly skip?: string | false;
}

export function describeRawHandleFiles({ device: name, program, skip }: RawFilesSubject): void {
  const why = skip || (typeof program === "string" ? program : false);
  describe(`raw handle files on ${name}`, { skip: why }, () => {
    let device: Device;
    let folder: TestFolder;
    let path: string;
    checkLeaks(() => {
      device.close();
      folder[Symbol.dispose]();
    });
    beforeEach(() => {
      device = Device.open(name);
      folder = new TestFolder();
      path = folder.file("cuda_ipc_handle.bin");
    });
    const start = (...args: readonly string[]) => (program as CProgram).start(...args);

    it("of a C program are waited for and opened, and it sees what is written", async () => {
      const reading = readHandleFile(path, raw);
      await using writer = start("write", path);
      const document = await reading;
      assert.equal(await writer.says(), "written");
      {
        using array = await openShared(document, { device, access: "read-write" });
        assert.deepEqual(await array.read(), counted);
        assert.ok(array.buffer.imported);
        assert.equal(array.buffer.mechanism, "legacy");
        await array.expectDType("int32").fill(-7);
      }
      writer.goOn();
      assert.equal(await writer.says(), "-7");
      assert.equal(await writer.ended(), "0");
    });

    it("that a C program is still writing are waited for", async () => {
      const reading = readHandleFile(path, raw);
      await using writer = start("write", path, "63");
      assert.equal(await writer.says(), "half");
      assert.equal(statSync(path).size, 63);
      await assert.rejects(readHandleFile(path, { ...raw, timeoutMs: 1 }), (error) => {
        assert.ok(error instanceof CudaIpcError);
        assert.equal(error.code, "TIMEOUT");
        assert.match(error.message, /it has 63 bytes, wanted 64/);
        return true;
      });
      writer.goOn();
      using handle = IpcArrayHandle.from(await reading);
      assert.equal(await writer.says(), "written");
      assert.deepEqual(await handle.open(device).read(), counted);
    });

    it("open without a device on the one that their memory is on", async () => {
      await using writer = start("write", path);
      assert.equal(await writer.says(), "written");
      using array = await openShared(await readHandleFile(path, raw), {
        ...(name === "host" ? {} : { device: name }),
      });
      assert.equal(array.device.name, name);
      assert.deepEqual(await array.read(), counted);
    });

    it("are written for a C program as exactly 64 bytes, for this user only", async () => {
      using array = DeviceArray.allocate(device, layout);
      await array.write(counted);
      const handle = IpcArrayHandle.of(array);
      await writeHandleFile(path, handle, { format: "raw" });
      assert.deepEqual(new Uint8Array(readFileSync(path)), handle.bytes);
      assert.equal(statSync(path).mode & 0o777, 0o600);
      await using reader = start("read", path);
      assert.equal(await reader.says(), "read");
      assert.equal(await reader.ended(), "0");
      assert.deepEqual(await array.read(), negated);
    });

    it("of this process, and of a C program that has ended, open nothing", async () => {
      using array = DeviceArray.allocate(device, layout);
      await writeHandleFile(path, IpcArrayHandle.of(array), { format: "raw" });
      const own = IpcArrayHandle.from(await readHandleFile(path, raw));
      assert.throws(() => own.open(device), { code: "OWN_HANDLE" });

      const writer = start("write", path);
      assert.equal(await writer.says(), "written");
      const handle = IpcArrayHandle.from(await readHandleFile(path, raw));
      writer.kill();
      await writer.ended();
      await assert.rejects(
        async () => IpcArrayHandle.from(await readHandleFile(path, raw)).open(device),
        (error) => {
          const codes = ["PEER_GONE", "STALE_HANDLE", "INVALID_HANDLE"];
          assert.ok(error instanceof CudaIpcError && codes.includes(error.code), String(error));
          return true;
        },
      );
      assert.throws(() => handle.open(device), CudaIpcError);
    });
  });
}
