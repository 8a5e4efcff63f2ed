import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import type { FileProgress } from "../../../src/client/hub-options.js";
import type { SharedArray } from "../../../src/client/objects/shared-array.js";
import type { SharedBundle } from "../../../src/client/objects/shared-bundle.js";
import type { FileFormat } from "../../../src/files/file-format.js";
import { checkLeaks } from "../../support/leak-check.js";
import { shardedModel, writeFolder } from "../../support/safetensors-files.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";
import { abortsAtTheEnd, LARGE, npyFile } from "./load-rig.js";

describe("load", () => {
  checkLeaks();

  it("publishes .npy files as arrays, and raw bytes with a given dtype and shape", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await using other = await testHub.connect();
    const path = testHub.folder.file("x.npy");
    writeFolder(testHub.folder.path, { "x.npy": npyFile(Float32Array.of(1, 2, 3)) });
    using loaded: SharedArray | SharedBundle = await hub.load("x", path);
    assert.equal(loaded.kind, "array");
    using opened = await other.open("x", { wait: false, dtype: "float32" });
    assert.deepEqual(await opened.read(), Float32Array.of(1, 2, 3));
    using raw: SharedArray = await hub.load("raw", path, {
      format: "raw",
      dtype: "uint8",
      shape: [2, 70],
    });
    assert.deepEqual([raw.dtype, raw.shape], ["uint8", [2, 70]]);
  });

  it("publishes a folder of safetensors files as one bundle, bit for bit", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const model = shardedModel();
    const folder = writeFolder(testHub.folder.file("model"), model);
    const steps: FileProgress[] = [];
    const onProgress = (step: FileProgress) => steps.push(step);
    using bundle: SharedBundle = await hub.load("model", folder, {
      format: "safetensors",
      onProgress,
    });
    assert.deepEqual([bundle.names(), bundle.metadata], [["a", "b", "c", "d"], { format: "pt" }]);
    const second = model["model-00002-of-00002.safetensors"] as Buffer;
    const c = (await bundle.array("c").read()) as Float32Array;
    assert.equal(Buffer.compare(Buffer.from(c.buffer), second.subarray(-29, -5)), 0);
    assert.deepEqual(steps.at(0), { doneBytes: 0, totalBytes: 58 });
    assert.deepEqual(steps.at(-1), { doneBytes: 58, totalBytes: 58 });
    const counts = steps.map(({ doneBytes }) => doneBytes);
    assert.deepEqual(
      counts,
      counts.toSorted((a, b) => a - b),
    );
  });

  it("reserves the name at once, or keeps the older object until the new is filled", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    writeFolder(testHub.folder.path, {
      "x.npy": npyFile(Float32Array.of(1)),
      "y.npy": npyFile(Float32Array.of(2)),
    });
    const [x, y] = [testHub.folder.file("x.npy"), testHub.folder.file("y.npy")];
    (await hub.load("x", x, { lifetime: "pinned" })).close();
    const read = () => assert.fail("read");
    await assert.rejects(hub.load("x", y, { onProgress: read }), (error) =>
      hasCode(error, "NAME_TAKEN"),
    );
    const aborted = hub.load("x", y, { replace: true, ...abortsAtTheEnd() });
    await assert.rejects(aborted, (error) => hasCode(error, "ABORTED"));
    const before: unknown[] = [];
    const onProgress = () => before.push(hub.open("x", { wait: false, dtype: "float32" }));
    using replaced = await hub.load("x", y, { replace: true, onProgress });
    assert.deepEqual(await (replaced as SharedArray).read(), Float32Array.of(2));
    for (const opening of before as ReturnType<typeof hub.open<"float32">>[]) {
      using older = await opening;
      assert.deepEqual(await older.read(), Float32Array.of(1));
    }
  });

  it("leaves nothing behind if it fails, is aborted or times out", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const file = (name: string) => testHub.folder.file(name);
    writeFolder(testHub.folder.path, {
      "cut.npy": LARGE.subarray(0, -1),
      "large.npy": LARGE,
      "bad.npy": "x",
    });
    for (const replace of [false, true]) {
      for (const name of ["cut.npy", "bad.npy", "absent.npy"]) {
        await assert.rejects(hub.load("x", file(name), { replace }), (error) =>
          hasCode(error, "INVALID_FILE"),
        );
      }
      const controller = new AbortController();
      const onProgress = ({ doneBytes }: FileProgress) => doneBytes > 0 && controller.abort();
      await assert.rejects(
        hub.load("x", file("large.npy"), { signal: controller.signal, onProgress, replace }),
        {
          code: "ABORTED",
          message: `Cannot load "x" from "${file("large.npy")}": aborted`,
        },
      );
      const last = hub.load("x", file("large.npy"), {
        replace,
        lifetime: "pinned",
        ...abortsAtTheEnd(),
      });
      await assert.rejects(last, (error) => hasCode(error, "ABORTED"));
      await assert.rejects(hub.load("x", file("large.npy"), { timeoutMs: 0, replace }), {
        code: "TIMEOUT",
        message: `Cannot load "x" from "${file("large.npy")}": not done within 0 ms`,
      });
      const fails = () => {
        throw new RangeError("mine");
      };
      await assert.rejects(
        hub.load("x", file("large.npy"), { onProgress: fails, replace }),
        /mine/,
      );
    }
    const { objects, leases } = await hub.status();
    assert.deepEqual([objects, leases], [0, 0]);
  });

  it("removes its name if it is aborted before the hub has answered", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    writeFolder(testHub.folder.path, { "x.npy": npyFile(Float32Array.of(1)) });
    const controller = new AbortController();
    const onProgress = ({ doneBytes, totalBytes }: FileProgress) => {
      if (doneBytes < totalBytes) return;
      testHub.kill("SIGSTOP");
      // Aborts after the request to publish was sent.
      setImmediate(() => setImmediate(() => controller.abort()));
    };
    const options = { lifetime: "pinned", signal: controller.signal, onProgress } as const;
    await assert.rejects(hub.load("x", testHub.folder.file("x.npy"), options), (error) =>
      hasCode(error, "ABORTED"),
    );
    testHub.kill("SIGCONT");
    await until("the name is free", async () => (await hub.list()).length === 0);
  });

  it("names the wrong argument", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const path = testHub.folder.file("x.npy");
    writeFolder(testHub.folder.path, { "x.npy": npyFile(Float32Array.of(1)) });
    await assert.rejects(hub.load("no/name", path), (error) => hasCode(error, "INVALID_NAME"));
    await assert.rejects(
      hub.load("x", undefined as unknown as string),
      /^TypeError: path must be a string/,
    );
    await assert.rejects(
      hub.load("x", path, { format: "zip" as FileFormat }),
      /^TypeError: format must be "npy"/,
    );
    await assert.rejects(
      hub.load("x", path, { dtype: "uint8" }),
      /^TypeError: dtype and shape are for raw bytes/,
    );
    await assert.rejects(hub.load("x", path, { dtype: "int128" as "int8" }), {
      code: "UNSUPPORTED_DTYPE",
    });
    assert.equal((await hub.status()).objects, 0);
  });
});
