import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { crc32, inflateSync } from "node:zlib";
import { encodePng } from "../../../../src/cli/dashboard/png.js";

describe("encodePng", () => {
  it("writes the chunks of an image of 8-bit RGBA", async () => {
    const rgba = Uint8Array.from({ length: 2 * 3 * 4 }, (_, i) => i);
    const png = Buffer.from(await encodePng(2, 3, rgba));
    assert.equal(png.subarray(0, 8).toString("latin1"), "\u0089PNG\r\n\u001a\n");
    const chunks = new Map<string, Buffer>();
    for (let at = 8; at < png.length; ) {
      const end = at + 8 + png.readUInt32BE(at);
      assert.equal(png.readUInt32BE(end), crc32(png.subarray(at + 4, end)));
      chunks.set(png.toString("latin1", at + 4, at + 8), png.subarray(at + 8, end));
      at = end + 4;
    }
    assert.deepEqual([...chunks.keys()], ["IHDR", "IDAT", "IEND"]);
    const header = [0, 0, 0, 2, 0, 0, 0, 3, 8, 6, 0, 0, 0];
    assert.deepEqual([...(chunks.get("IHDR") ?? [])], header);
    const lines = inflateSync(chunks.get("IDAT") ?? Buffer.alloc(0));
    assert.deepEqual(
      [0, 1, 2].map((row) => [...lines.subarray(9 * row, 9 * row + 9)]),
      [0, 1, 2].map((row) => [0, ...rgba.subarray(8 * row, 8 * row + 8)]),
    );
  });
});
