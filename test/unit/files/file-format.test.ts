import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { SystemError } from "../../../src/base/errors.js";
import { detectFileFormat, formatByName } from "../../../src/files/file-format.js";
import { fixturePath } from "./fixture-file.js";
import { scratchFolder } from "./scratch-folder.js";

describe("detectFileFormat", () => {
  it("uses the content first, then the name", async () => {
    using scratch = scratchFolder();
    const tiny = Buffer.concat([Buffer.of(2, 0, 0, 0, 0, 0, 0, 0), Buffer.from("{}")]);
    assert.equal(await detectFileFormat(fixturePath("npy/int8.npy")), "npy");
    assert.equal(
      await detectFileFormat(fixturePath("safetensors/every-dtype.safetensors")),
      "safetensors",
    );
    assert.equal(
      await detectFileFormat(scratch.write("a.bin", Buffer.from("\x93NUMPY\x01\0", "latin1"))),
      "npy",
    );
    assert.equal(await detectFileFormat(scratch.write("b.bin", tiny)), "safetensors");
    assert.equal(await detectFileFormat(scratch.write("c.npy", "nothing of the kind")), "npy");
    assert.equal(await detectFileFormat(scratch.write("d.safetensors", "")), "safetensors");
    assert.equal(await detectFileFormat(scratch.write("e.bin", "")), "raw");
    assert.equal(await detectFileFormat(scratch.write("f.bin", tiny.subarray(0, 9))), "raw");
    assert.equal(await detectFileFormat(scratch.write("g", Buffer.alloc(64))), "raw");
    tiny[0] = 3;
    assert.equal(await detectFileFormat(scratch.write("h.bin", tiny)), "raw");
  });

  it("throws INVALID_FILE if the file does not exist", async () => {
    await assert.rejects(
      detectFileFormat("/nowhere/x.npy"),
      (error) =>
        error instanceof SystemError &&
        error.code === "INVALID_FILE" &&
        error.errnoName === "ENOENT" &&
        error.errno === 2 &&
        error.message === 'Cannot read "/nowhere/x.npy": no such file or directory (ENOENT)',
    );
  });
});

describe("formatByName", () => {
  it("uses the file extension, in upper or lower case", () => {
    assert.equal(formatByName("A.NPY"), "npy");
    assert.equal(formatByName("a.safetensors"), "safetensors");
    assert.equal(formatByName("npy"), "raw");
  });
});
