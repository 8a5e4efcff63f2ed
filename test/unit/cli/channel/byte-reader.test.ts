import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ByteReader } from "../../../../src/cli/channel/byte-reader.js";

async function* pieces(text: string, size: number): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(text);
  for (let i = 0; i < bytes.byteLength; i += size) yield bytes.subarray(i, i + size);
}

const textOf = (bytes: Uint8Array | undefined) =>
  bytes === undefined ? undefined : Buffer.from(bytes).toString();

describe("ByteReader", () => {
  for (const size of [1, 2, 3, 100]) {
    it(`takes the given number of bytes from pieces of ${size}`, async () => {
      const reader = new ByteReader(pieces("abcdefgh", size));
      const taken: (string | undefined)[] = [];
      for (const count of [3, 0, 4, 5, 5]) taken.push(textOf(await reader.take(count)));
      assert.deepEqual(taken, ["abc", "", "defg", "h", ""]);
    });

    it(`finds lines in pieces of ${size}`, async () => {
      const reader = new ByteReader(pieces("\none\n\nfive5\nend", size));
      const lines: (string | undefined)[] = [];
      for (let i = 0; i < 6; i += 1) lines.push(textOf(await reader.line(5)));
      assert.deepEqual(lines, ["", "one", "", "five5", "end", undefined]);
    });

    it(`cuts a line that is too long in pieces of ${size}`, async () => {
      const reader = new ByteReader(pieces("123456789\n", size));
      assert.equal(textOf(await reader.line(4)), "12345");
    });
  }

  it("has no line after a last line break", async () => {
    const reader = new ByteReader(pieces("a\n", 10));
    assert.equal(textOf(await reader.line(5)), "a");
    assert.equal(await reader.line(5), undefined);
  });
});
