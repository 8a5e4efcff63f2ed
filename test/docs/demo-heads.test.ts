/** Each example begins with a comment: its system, how to run it, its output. All are listed. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { exampleHead } from "./example-output.js";

/** These files are shared by the examples. */
const SHARED = ["program", "child", "supervisor", "pair", "ranks", "cuda-kernels", "run-lengths"];
const examples = readdirSync("examples")
  .filter((file) => file.endsWith(".ts"))
  .map((file) => file.slice(0, -3))
  .filter((name) => !SHARED.includes(name));

describe("the examples", () => {
  for (const name of examples) {
    it(`${name} says what it is, how it is run and what it prints`, () => {
      const { text, lines } = exampleHead(name);
      assert.match(text, /^\/\*\*\n \* Systems? S\d+/);
      assert.match(text, new RegExp(`npx cuda-ipc demo ${name} `));
      assert.match(text, new RegExp(`node examples/${name}\\.ts`));
      assert.ok(lines.length >= 3);
    });

    it(`${name} uses the package by its name, and is short`, () => {
      const source = readFileSync(`examples/${name}.ts`, "utf8");
      const imported = [...source.matchAll(/ from "([^"]+)"/g)].map(([, from = ""]) => from);
      const allowed = imported.filter(
        (from) => /^(cuda-ipc(\/\w+)?|node:.+)$/.test(from) || SHARED.includes(from.slice(2, -3)),
      );
      assert.deepEqual(imported, allowed);
      assert.ok(source.split("\n").length <= 150);
    });

    it(`${name} is in the table of examples/README.md and among the demos`, () => {
      assert.match(
        readFileSync("examples/README.md", "utf8"),
        new RegExp(`\\(${name}\\.ts\\).*\`npx cuda-ipc demo ${name}\``),
      );
      assert.match(
        readFileSync("src/cli/commands/demo.ts", "utf8"),
        new RegExp(`^ {2}"?${name}"?: \\{`, "m"),
      );
    });
  }

  it("has one for every demo but those in src/cli/demo", () => {
    const demos = readFileSync("src/cli/commands/demo.ts", "utf8").matchAll(
      /^ {2}"?([\w-]+)"?: \{\s+title: "[^"]+"(?!,\s+(?:play|run):)/gm,
    );
    assert.deepEqual([...demos].map(([, name]) => name).sort(), [...examples].sort());
  });
});
