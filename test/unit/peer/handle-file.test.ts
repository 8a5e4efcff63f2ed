import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { beforeEach, describe, it } from "node:test";
import type { ErrorCode } from "../../../src/base/error-codes.js";
import { hasCode } from "../../../src/base/errors.js";
import { limits } from "../../../src/base/limits.js";
import { encodeHostHandle } from "../../../src/driver/host/host-handle.js";
import { IpcArrayHandle } from "../../../src/gpu/arrays/ipc-array-handle.js";
import { ownIdentity, type ProcessIdentity } from "../../../src/os/process-identity.js";
import { readHandleFile, writeHandleFile } from "../../../src/peer/handle-file.js";
import type { RawHandleDocument } from "../../../src/wire/ipc-documents.js";
import type { SharedMemoryDocument } from "../../../src/wire/shared-document.js";
import { Disposables } from "../../support/disposables.js";
import { checkLeaks } from "../../support/leak-check.js";
import { sharedArray } from "../../support/messages.js";
import { skipUnlessRoot } from "../../support/other-user.js";
import { TestFolder } from "../../support/test-folder.js";
import { soon } from "../../support/until.js";

const code = (wanted: ErrorCode) => (error: unknown) => hasCode(error, wanted);

describe("handle files", () => {
  let made = new Disposables();
  let folder: TestFolder;
  let path: string;
  checkLeaks(() => made.end());
  beforeEach(() => {
    made = new Disposables();
    folder = made.add(new TestFolder());
    path = folder.file("frame.json");
  });

  const alive: SharedMemoryDocument = { ...sharedArray, exporter: ownIdentity() };
  const gone: SharedMemoryDocument = { ...alive, exporter: { ...ownIdentity(), startTicks: 0 } };
  const rebooted: SharedMemoryDocument = {
    ...alive,
    exporter: { ...ownIdentity(), bootId: sharedArray.exporter.bootId },
  };

  it("are read as written, for this user only, and leave no other file", async () => {
    await writeHandleFile(path, alive);
    assert.deepEqual(await readHandleFile(path), alive);
    assert.equal(statSync(path).mode & 0o777, 0o600);
    await writeHandleFile(path, { ...alive, access: "read" });
    assert.deepEqual(await readHandleFile(path), { ...alive, access: "read" });
    assert.deepEqual(
      spawnSync("ls", ["-A", folder.path], { encoding: "utf8" }).stdout,
      "frame.json\n",
    );
  });

  it("replace a link, not its target", async () => {
    writeFileSync(folder.file("other"), "precious");
    symlinkSync(folder.file("other"), path);
    await writeHandleFile(path, alive);
    assert.equal(readFileSync(folder.file("other"), "utf8"), "precious");
  });

  for (const mode of [0o1777, 0o777]) {
    const kind = mode === 0o777 ? "a folder" : "a sticky folder";
    it(`are not written behind a link of another user in ${kind} that all may write to`, {
      skip: skipUnlessRoot,
    }, async () => {
      for (const name of ["home", "all"]) mkdirSync(folder.file(name));
      chmodSync(folder.file("all"), mode);
      symlinkSync(folder.file("home"), folder.file("all/link"));
      lchownSync(folder.file("all/link"), 12_345, 12_345);
      const behind = folder.file("all/link/frame.json");
      await assert.rejects(writeHandleFile(behind, alive), {
        code: "PERMISSION_DENIED",
        message: /^Cannot write .*the symbolic link ".*" belongs to user 12345/,
      });
      assert.deepEqual(readdirSync(folder.file("home")), []);
      chmodSync(folder.file("all"), 0o755);
      await writeHandleFile(behind, alive);
      assert.deepEqual(readdirSync(folder.file("home")), ["frame.json"]);
    });
  }

  it("are not written to an unusable path, or with an invalid document", async () => {
    await assert.rejects(
      writeHandleFile(folder.file("no/frame.json"), alive),
      code("SYSTEM_ERROR"),
    );
    await assert.rejects(
      writeHandleFile(path, {} as SharedMemoryDocument),
      code("INVALID_DESCRIPTOR"),
    );
    mkdirSync(path);
    await assert.rejects(writeHandleFile(path, alive), code("SYSTEM_ERROR"));
    assert.deepEqual(
      spawnSync("ls", ["-A", folder.path], { encoding: "utf8" }).stdout,
      "frame.json\n",
    );
  });

  it("are waited for if they do not exist yet", async () => {
    const reading = readHandleFile(path);
    await writeHandleFile(folder.file("other.json"), alive);
    await writeHandleFile(path, alive);
    assert.deepEqual(await soon("the file is read", reading), alive);
  });

  it("are waited for if their folder does not exist yet", async () => {
    const reading = readHandleFile(folder.file("later/frame.json"));
    mkdirSync(folder.file("later"));
    await writeHandleFile(folder.file("later/frame.json"), alive);
    assert.deepEqual(await soon("the file is read", reading), alive);
  });

  it("throw TIMEOUT after the limit, and say what was found last", async () => {
    const missing = (error: unknown) => hasCode(error, "TIMEOUT") && /ENOENT/.test(error.message);
    await assert.rejects(readHandleFile(path, { timeoutMs: 1 }), missing);
    await assert.rejects(readHandleFile(path, { timeoutMs: 0 }), missing);
    await writeHandleFile(path, gone);
    await assert.rejects(
      readHandleFile(path, { timeoutMs: 1, stale: "wait" }),
      (error) =>
        hasCode(error, "TIMEOUT") &&
        /has ended/.test(error.message) &&
        hasCode(error.cause, "PEER_GONE"),
    );
  });

  it("are not waited for once the signal is aborted", async () => {
    await assert.rejects(readHandleFile(path, { signal: AbortSignal.abort() }), code("ABORTED"));
    const controller = new AbortController();
    const reading = readHandleFile(path, { signal: controller.signal });
    controller.abort();
    await assert.rejects(reading, code("ABORTED"));
  });

  it("are refused, or waited for, if their exporter is gone or of another boot", async () => {
    for (const [document, wanted] of [
      [gone, "PEER_GONE"],
      [rebooted, "STALE_HANDLE"],
    ] as const) {
      await writeHandleFile(path, document);
      await assert.rejects(readHandleFile(path), code(wanted));
      const reading = readHandleFile(path, { stale: "wait" });
      await writeHandleFile(path, alive);
      assert.deepEqual(await soon("the fresh file is read", reading), alive);
    }
    await assert.rejects(readHandleFile(path, { stale: "ignore" as "wait" }), TypeError);
  });

  it("are refused if other users may write to them", async () => {
    for (const mode of [0o620, 0o602, 0o666, 0o777]) {
      await writeHandleFile(path, alive);
      chmodSync(path, mode);
      await assert.rejects(readHandleFile(path), code("UNSAFE_RUNTIME_DIR"));
    }
    chmodSync(path, 0o644);
    assert.deepEqual(await readHandleFile(path), alive);
  });

  const skip = process.geteuid?.() !== 0 && "only root can give a file away";
  it("are refused if another user owns them", { skip }, async () => {
    await writeHandleFile(path, alive);
    chownSync(path, 12345, 12345);
    await assert.rejects(readHandleFile(path), code("UNTRUSTED_PEER"));
  });

  it("are refused at once if they are anything but a file", async () => {
    const others: Record<string, () => void> = {
      "an empty file": () => writeFileSync(path, "", { mode: 0o600 }),
      "half a document": () =>
        writeFileSync(path, JSON.stringify(alive).slice(0, 100), { mode: 0o600 }),
      "another JSON": () => writeFileSync(path, "[1, 2]", { mode: 0o600 }),
      "bytes that are no text": () => writeFileSync(path, Buffer.alloc(64, 0xff), { mode: 0o600 }),
      "a file over the limit": () =>
        writeFileSync(path, `${JSON.stringify(alive)}${" ".repeat(limits.handleFileBytesMax)}`, {
          mode: 0o600,
        }),
      "a folder": () => mkdirSync(path),
      "a pipe that nobody writes to": () =>
        assert.equal(spawnSync("mkfifo", ["-m", "600", path]).status, 0),
    };
    for (const [what, make] of Object.entries(others)) {
      make();
      const refused = (error: unknown) => hasCode(error, "INVALID_DESCRIPTOR");
      await assert.rejects(
        soon(what, readHandleFile(path, { timeoutMs: 20_000, stale: "wait" })),
        refused,
        what,
      );
      rmSync(path, { recursive: true });
    }
  });

  describe("with a raw handle", () => {
    const raw = { format: "raw", dtype: "int32", shape: [4, 6] } as const;
    const own = ownIdentity();
    const host = { kind: "memory", fd: 3, fileNumber: 7, byteLength: 4096, slot: 0 } as const;
    const handleOf = (changed: Partial<ProcessIdentity> = {}) =>
      encodeHostHandle({ ...host, ...own, ...changed, generation: 0 });
    const put = (bytes: Uint8Array) => writeFileSync(path, bytes, { mode: 0o600 });

    it("are read as a document of a kind of its own, with the array that the reader names", async () => {
      put(handleOf());
      const document = await readHandleFile(path, { ...raw, byteOffset: 8 });
      const handle = Buffer.from(handleOf()).toString("base64");
      const array = { dtype: "int32", shape: [4, 6], strides: [6, 1], byteOffset: 8 };
      assert.deepEqual(document, {
        format: "cuda-ipc",
        version: 1,
        kind: "raw-handle",
        handle,
        array,
      });
      const parsed = IpcArrayHandle.from(JSON.parse(JSON.stringify(document)));
      assert.deepEqual([parsed.shape, parsed.strides, parsed.dtype], [[4, 6], [6, 1], "int32"]);
      assert.deepEqual(parsed.bytes, handleOf());
      await writeHandleFile(path, document);
      assert.deepEqual(await readHandleFile(path), document);
      await writeHandleFile(path, document, { format: "raw" });
      assert.deepEqual(new Uint8Array(readFileSync(path)), handleOf());
      const text = execFileSync("ls", ["-A", folder.path], { encoding: "utf8" });
      assert.equal(text, "frame.json\n");
    });

    it("of 63 bytes are waited for until the time limit, and of 65 refused at once", async () => {
      put(handleOf().subarray(0, 63));
      await assert.rejects(
        readHandleFile(path, { ...raw, timeoutMs: 1 }),
        (error) =>
          hasCode(error, "TIMEOUT") &&
          /it has 63 bytes, wanted 64/.test(error.message) &&
          hasCode(error.cause, "INVALID_FILE"),
      );
      const reading = readHandleFile(path, raw);
      put(handleOf());
      assert.equal((await soon("the whole file is read", reading)).kind, "raw-handle");
      put(Buffer.concat([handleOf(), Buffer.of(0)]));
      const long = soon("a long file", readHandleFile(path, { ...raw, stale: "wait" }));
      await assert.rejects(long, code("INVALID_FILE"));
    });

    it("are refused if they are a folder or a pipe, or if others may write to them", async () => {
      mkdirSync(path);
      await assert.rejects(readHandleFile(path, raw), code("INVALID_DESCRIPTOR"));
      rmSync(path, { recursive: true });
      assert.equal(spawnSync("mkfifo", ["-m", "600", path]).status, 0);
      await assert.rejects(readHandleFile(path, raw), code("INVALID_DESCRIPTOR"));
      rmSync(path);
      put(handleOf());
      chmodSync(path, 0o666);
      await assert.rejects(readHandleFile(path, raw), code("UNSAFE_RUNTIME_DIR"));
      if (skip !== false) return;
      chmodSync(path, 0o600);
      chownSync(path, 12345, 12345);
      await assert.rejects(readHandleFile(path, raw), code("UNTRUSTED_PEER"));
    });

    it("are refused, or waited for, if their process is gone or of another boot", async () => {
      const { bootId } = sharedArray.exporter;
      for (const [changed, wanted] of [
        [{ startTicks: 0 }, "PEER_GONE"],
        [{ bootId }, "STALE_HANDLE"],
      ] as const) {
        put(handleOf(changed));
        await assert.rejects(readHandleFile(path, raw), code(wanted));
        const reading = readHandleFile(path, { ...raw, stale: "wait" });
        await writeHandleFile(path, await readHandleFileOf(handleOf()), { format: "raw" });
        assert.equal((await soon("the fresh file is read", reading)).kind, "raw-handle");
      }
    });

    async function readHandleFileOf(bytes: Uint8Array): Promise<RawHandleDocument> {
      const other = folder.file("other.bin");
      writeFileSync(other, bytes, { mode: 0o600 });
      return readHandleFile(other, raw);
    }

    it("are written only for handles, and read only with a dtype and a shape", async () => {
      await assert.rejects(
        writeHandleFile(path, alive, { format: "raw" }),
        (error) =>
          hasCode(error, "WRONG_KIND") && /Pass IpcArrayHandle\.of\(array\)/.test(error.message),
      );
      assert.ok(!existsSync(path));
      const bad = (options: unknown) => readHandleFile(path, options as typeof raw);
      await assert.rejects(
        bad({ format: "raw" }),
        /^TypeError: readHandleFile\(\) needs the option/,
      );
      await assert.rejects(bad({ ...raw, dtype: "int33" }), code("UNSUPPORTED_DTYPE"));
      await assert.rejects(bad({ ...raw, shape: [-1] }), RangeError);
      await assert.rejects(bad({ format: "binary" }), /^TypeError: format must be "json" or "raw"/);
      await assert.rejects(bad({ ...raw, timeout: 1 }), /has no option "timeout"/);
      await assert.rejects(
        writeHandleFile(path, alive, { format: "binary" as "raw" }),
        /^TypeError: format must be/,
      );
    });
  });

  it("are never seen half written: each read finds a whole document", async () => {
    await writeHandleFile(path, alive);
    let writing = true;
    const writer = (async () => {
      for (let i = 0; i < 100; i += 1)
        await writeHandleFile(path, { ...alive, access: i % 2 === 0 ? "read" : "read-write" });
      writing = false;
    })();
    while (writing) assert.equal((await readHandleFile(path)).kind, alive.kind);
    await writer;
  });

  it("keep no watch on a folder that was removed", async () => {
    mkdirSync(folder.file("later"));
    const reading = readHandleFile(folder.file("later/frame.json"));
    renameSync(folder.file("later"), folder.file("gone"));
    mkdirSync(folder.file("later"));
    await writeHandleFile(folder.file("later/frame.json"), alive);
    assert.deepEqual(await soon("the file is read", reading), alive);
    assert.ok(existsSync(folder.file("gone")));
  });
});
