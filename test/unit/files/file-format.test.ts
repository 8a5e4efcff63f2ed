import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode, SystemError } from "../../../src/base/errors.js";
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

  it("refuses an index, an archive, a pickle and a GGUF model by its name or content", async () => {
    using scratch = scratchFolder();
    const names = `a.npz A.ZIP a.tar a.tar.gz a.tgz a.gguf a.pt a.pth a.pkl a.ckpt a.bin.index.json
      model.safetensors.index.json model.safetensors.index.fp16.json model.index.json
      model.safetensors.fp16.index.json model_index.json pytorch_model.bin.index.fp16.json
      pytorch_model.bin pytorch_model-00001-of-00002.bin diffusion_pytorch_model.fp16.bin`;
    for (const name of names.split(/\s+/)) {
      await assert.rejects(
        detectFileFormat(scratch.write(name, "{}")),
        (error) =>
          hasCode(error, "INVALID_FILE") &&
          /: it is an? (index of other files|archive|pickle|GGUF model)$/.test(error.message) &&
          /`format: "raw"` \(in commands: --format raw\)/.test(error.remedy),
        name,
      );
    }
    const torch = Buffer.from("80028a0a6cfc9c46f9206aa85019", "hex");
    const pickle = Buffer.from("800495060000000000000000", "hex");
    for (const start of [Buffer.from("PK\x03\x04"), Buffer.from("GGUF"), torch, pickle])
      await assert.rejects(detectFileFormat(scratch.write("x.bin", start)), {
        code: "INVALID_FILE",
      });
  });

  it("takes other files with similar names as raw bytes", async () => {
    using scratch = scratchFolder();
    for (const name of ["index.html", "a.json", "reindex.bin", "ptx.bin", "model.bin", "a.ptx"])
      assert.equal(await detectFileFormat(scratch.write(name, "PKGG")), "raw", name);
    const array = Buffer.from("\x93NUMPY\x01\0", "latin1");
    assert.equal(await detectFileFormat(scratch.write("a.npz", array)), "npy");
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
