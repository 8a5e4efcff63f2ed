import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { languageOf } from "../../../src/watch/client-language.js";

describe("languageOf", () => {
  const cases: readonly [string, string | undefined, string | undefined][] = [
    ["producer.mjs", undefined, "JavaScript"],
    ["server.ts", "python3 server.ts", "JavaScript"],
    ["reader.py", "node reader.py", "Python"],
    ["cuda-ipc top", "/usr/local/bin/node /x/launch.cjs top", "JavaScript"],
    ["worker", "/venv/bin/python3.13t -m worker", "Python"],
    ["worker", "bun run worker", "JavaScript"],
    ["reader", "./reader --fast", undefined],
    ["nodes", "/usr/bin/nodes", undefined],
    ["reader", undefined, undefined],
  ];
  for (const [program, command, language] of cases) {
    it(`finds ${language} for ${program}, run as ${command}`, () =>
      assert.equal(languageOf(program, command), language));
  }
});
