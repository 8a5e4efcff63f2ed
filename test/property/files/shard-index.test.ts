import assert from "node:assert/strict";
import { mkdirSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { join, resolve, sep } from "node:path";
import { describe, it } from "node:test";
import fc from "fast-check";
import { CudaIpcError } from "../../../src/base/errors.js";
import { LoadSource } from "../../../src/files/load-source.js";
import {
  encodeShardIndex,
  parseShardIndex,
  type ShardIndex,
  shardIndexName,
} from "../../../src/files/shard-index.js";
import { indexText, safetensorsFile, writeFolder } from "../../support/safetensors-files.js";
import { scratchFolder } from "../../unit/files/scratch-folder.js";

const FOLDER = "/models/x";

/** Parts of paths that lead anywhere. */
const part = fc.constantFrom(
  "..",
  ".",
  "",
  "a",
  "b.safetensors",
  "sub",
  "~",
  "\0",
  "\\..",
  "%2e%2e",
  "C:",
  " ",
);
const path = fc.array(part, { minLength: 1, maxLength: 6 }).map((parts) => parts.join("/"));
const fileName = fc.oneof(path, fc.string({ unit: "binary", maxLength: 20 }));
const weightMap = fc.dictionary(fc.string({ maxLength: 8 }), fileName, { maxKeys: 6 });

function checkIndex(index: ShardIndex): void {
  for (const [file, names] of index) {
    assert.ok(names.length > 0);
    assert.ok(resolve(FOLDER, file).startsWith(FOLDER + sep), `${JSON.stringify(file)} leads out`);
    assert.ok(!file.includes("\0"));
  }
}

function parseOrRefuse(text: Uint8Array): ShardIndex | undefined {
  let index: ShardIndex;
  try {
    index = parseShardIndex(text, "x");
  } catch (error) {
    assert.ok(
      error instanceof CudaIpcError && ["INVALID_FILE", "LIMIT_EXCEEDED"].includes(error.code),
      String(error),
    );
    return undefined;
  }
  checkIndex(index);
  return index;
}

describe("the index of a folder", () => {
  it("never leads to a file outside its folder, whatever it names", () => {
    let accepted = 0;
    fc.assert(
      fc.property(weightMap, (map) => {
        if (parseOrRefuse(Buffer.from(indexText(map))) !== undefined) accepted += 1;
      }),
      { numRuns: 3000 },
    );
    assert.ok(accepted > 50, `${accepted} accepted`);
  });

  it("throws only the errors of files, whatever its content", () => {
    const json = fc.oneof(
      fc.json(),
      fc.jsonValue().map((value) => JSON.stringify({ weight_map: value })),
    );
    fc.assert(
      fc.property(
        fc.oneof(
          json.map((text) => Buffer.from(text)),
          fc.uint8Array({ maxLength: 64 }),
        ),
        (text) => {
          parseOrRefuse(text);
        },
      ),
      { numRuns: 2000 },
    );
  });

  it("throws only the errors of files if bytes of a valid one are changed", () => {
    const good = Buffer.from(indexText({ a: "x.safetensors", b: "sub/y.safetensors" }));
    fc.assert(
      fc.property(
        fc.nat({ max: good.length - 1 }),
        fc.uint8Array({ maxLength: 4 }),
        fc.nat({ max: 4 }),
        (at, put, cut) => {
          parseOrRefuse(Buffer.concat([good.subarray(0, at), put, good.subarray(at + cut)]));
        },
      ),
      { numRuns: 3000 },
    );
  });

  it("is read back as it was written", () => {
    const names = fc.uniqueArray(fc.string({ unit: "grapheme", maxLength: 12 }), {
      minLength: 1,
      maxLength: 8,
    });
    fc.assert(
      fc.property(names, fc.integer({ min: 1, max: 3 }), (all, count) => {
        const files = new Map<string, string[]>();
        for (const [i, name] of all.entries()) {
          const file = `model-${i % count}.safetensors`;
          files.set(file, [...(files.get(file) ?? []), name]);
        }
        const read = parseShardIndex(Buffer.from(encodeShardIndex(files, 1)), "x");
        const sorted = (index: ShardIndex) =>
          [...index].map(([file, own]) => [file, [...own].sort()]);
        assert.deepEqual(sorted(read), sorted(files));
      }),
    );
  });

  it("never opens a file that lies elsewhere, through links, pipes or devices", async () => {
    using outside = scratchFolder();
    using scratch = scratchFolder();
    const secret = safetensorsFile({ secret: { dtype: "uint8", shape: [1] } });
    const own = safetensorsFile({ a: { dtype: "uint8", shape: [1] } });
    outside.write("secret.safetensors", secret);
    const folder = join(scratch.path, "model");
    writeFolder(folder, { "own.safetensors": own, "sub/own.safetensors": own });
    writeFolder(scratch.path, { "secret.safetensors": secret });
    symlinkSync(outside.path, join(folder, "out"));
    symlinkSync("..", join(folder, "up"));
    symlinkSync("../secret.safetensors", join(folder, "link.safetensors"));
    symlinkSync("/dev/zero", join(folder, "zero"));
    symlinkSync("sub", join(folder, "in"));
    mkdirSync(join(folder, "empty"));
    const step = fc.constantFrom(
      "..",
      "out",
      "up",
      "in",
      "sub",
      "empty",
      "model",
      "zero",
      "link.safetensors",
    );
    const last = fc.constantFrom(
      "own.safetensors",
      "secret.safetensors",
      "link.safetensors",
      "zero",
      "absent",
    );
    const reached = fc
      .tuple(fc.array(step, { maxLength: 3 }), last)
      .map(([steps, file]) => [...steps, file].join("/"));
    let loaded = 0;
    await fc.assert(
      fc.asyncProperty(reached, async (file) => {
        writeFolder(folder, { [shardIndexName]: indexText({ a: file }) });
        let source: LoadSource;
        try {
          source = await LoadSource.open(folder, {});
        } catch (error) {
          assert.ok(error instanceof CudaIpcError && error.code === "INVALID_FILE", String(error));
          return;
        }
        await source[Symbol.asyncDispose]();
        assert.ok(realpathSync(join(folder, file)).startsWith(realpathSync(folder) + sep), file);
        loaded += 1;
      }),
      { numRuns: 500 },
    );
    assert.ok(loaded > 5, `${loaded} loaded`);
    rmSync(join(folder, shardIndexName));
  });
});
