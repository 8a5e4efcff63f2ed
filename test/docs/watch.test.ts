/** docs/watch.md names every channel of node:diagnostics_channel, with the fields of its message. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";

const SOURCES = ["channel/channel", "client/client", "service/service"].map(
  (path) => `src/${path}-diagnostics.ts`,
);

/** The fields of each channel's message, by name, from the sources. */
function published(): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const path of SOURCES) {
    const source = readFileSync(path, "utf8");
    for (const [, type, name] of source.matchAll(/(?:point|operation)<(\w+)>\("([\w-]+)"\)/g)) {
      const body = new RegExp(`interface ${type}\\b[^{]*\\{([\\s\\S]*?)\\n\\}`).exec(source)?.[1];
      assert.ok(body !== undefined, `${path} has no ${type}`);
      const fields = [...body.matchAll(/readonly (\w+)\??:/g)].map((match) => match[1] ?? "");
      found.set(name ?? "", fields);
    }
  }
  return found;
}

/** The fields that a row of the page names before the first colon of each. */
function fieldsIn(cell: string): string[] {
  return [...cell.matchAll(/`(\w+)`/g)].map((match) => match[1] ?? "");
}

describe("docs/watch.md", () => {
  it("has a row for each channel, with the fields of its message", () => {
    const page = readFileSync("docs/watch.md", "utf8");
    const rows = [...page.matchAll(/^\| `cuda-ipc:([\w-]+)` \|[^|]*\|([^|]*)\|/gm)];
    const documented = new Map(rows.map(([, name = "", cell = ""]) => [name, fieldsIn(cell)]));
    const sources = published();
    assert.ok(sources.size >= 15, `${sources.size} channels`);
    assert.deepEqual([...documented.keys()].sort(), [...sources.keys()].sort());
    for (const [name, fields] of sources)
      assert.deepEqual(documented.get(name)?.sort(), fields.sort(), name);
  });
});
