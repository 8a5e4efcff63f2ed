/** docs/protocol.md draws the memory of a channel as the source does. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";

/** The pictures in the first comment of a source: lines that stand deeper than its text. */
function picturesOf(source: string): string[] {
  const head = source.slice(0, source.indexOf(" */"));
  const blocks = head.split(/^ \*(?! {3}).*\n/m).filter((block) => block.startsWith(" *   "));
  return blocks.map((block) => block.replaceAll(/^ \* {3}/gm, ""));
}

describe("docs/protocol.md", () => {
  const source = readFileSync("src/ring/channel-layout.ts", "utf8");
  const page = readFileSync("docs/protocol.md", "utf8");

  it("draws a channel's memory as src/ring/channel-layout.ts does", () => {
    const pictures = picturesOf(source);
    assert.equal(pictures.length, 3);
    for (const picture of pictures) assert.ok(page.includes(`\n\`\`\`\n${picture}\`\`\`\n`), picture);
  });

  it("would be found to draw it otherwise", () => {
    const [first = ""] = picturesOf(source.replace("| limit     | dropped", "| dropped   | limit  "));
    assert.ok(!page.includes(first));
  });
});
