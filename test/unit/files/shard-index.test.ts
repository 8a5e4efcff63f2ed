import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { limits } from "../../../src/base/limits.js";
import { encodeShardIndex, parseShardIndex } from "../../../src/files/shard-index.js";

function parse(value: unknown): [string, readonly string[]][] {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return [...parseShardIndex(Buffer.from(text), "index.json")];
}

describe("parseShardIndex", () => {
  it("returns the arrays of each file, sorted by file name", () => {
    const weightMap = {
      "10": "b.safetensors",
      z: "a.safetensors",
      __proto__: "x",
      a: "sub/c.safetensors",
      y: "a.safetensors",
    };
    assert.deepEqual(parse({ metadata: { total_size: 1.5 }, weight_map: weightMap }), [
      ["a.safetensors", ["z", "y"]],
      ["b.safetensors", ["10"]],
      ["sub/c.safetensors", ["a"]],
    ]);
  });

  const refused: readonly (readonly [string, unknown, RegExp])[] = [
    ["no JSON", "{", /it is not valid JSON/],
    ["text after the end", '{"weight_map":{"a":"x"}} x', /it is not valid JSON/],
    ["an array twice", '{"weight_map":{"a":"x","a":"y"}}', /name "a" twice/],
    ["a list", [], /it has no weight_map/],
    ["no weight_map", { metadata: {} }, /it has no weight_map/],
    ["a list as weight_map", { weight_map: ["x"] }, /it has no weight_map/],
    ["an empty weight_map", { weight_map: {} }, /names no array/],
    ["a number as file", { weight_map: { a: 1 } }, /has "a" that is no file name/],
    ["no name", { weight_map: { a: "" } }, /which is empty/],
    [
      "a path out of the folder",
      { weight_map: { a: "../x.safetensors" } },
      /which leads out of the folder/,
    ],
    [
      "a path out of the folder and back",
      { weight_map: { a: "x/../../y" } },
      /which leads out of the folder/,
    ],
    [
      "a path that only turns round",
      { weight_map: { a: "x/../y" } },
      /which leads out of the folder/,
    ],
    ["an absolute path", { weight_map: { a: "/etc/passwd" } }, /which is an absolute path/],
    ["the folder itself", { weight_map: { a: "." } }, /which is no plain path/],
    ["an empty part", { weight_map: { a: "x//y" } }, /which is no plain path/],
    ["a folder", { weight_map: { a: "x/" } }, /which is no plain path/],
    ["a NUL character", { weight_map: { a: "x\0y" } }, /which holds a NUL character/],
  ];
  for (const [what, value, words] of refused) {
    it(`refuses ${what}`, () => {
      assert.throws(
        () => parse(value),
        (error: Error & { code?: string }) => {
          assert.equal(error.code, "INVALID_FILE");
          assert.match(error.message, /^Cannot read "index\.json": /);
          assert.match(error.message, words);
          return true;
        },
      );
    });
  }

  it("refuses text that is not UTF-8", () => {
    const text = Buffer.from('{"weight_map":{"a":"x"}}');
    text[16] = 0xff;
    assert.throws(() => parseShardIndex(text, "x"), {
      code: "INVALID_FILE",
      message: /not valid UTF-8/,
    });
  });

  it("refuses more files than shardsMax", () => {
    const weightMap = Object.fromEntries(
      Array.from({ length: limits.shardsMax + 1 }, (_, i) => [`a${i}`, `f${i}`]),
    );
    assert.throws(() => parse({ weight_map: weightMap }), {
      code: "LIMIT_EXCEEDED",
      message: /shardsMax/,
    });
    delete weightMap.a0;
    assert.equal(parse({ weight_map: weightMap }).length, limits.shardsMax);
  });
});

describe("encodeShardIndex", () => {
  it("writes the text that the Hugging Face libraries write", () => {
    const files = new Map([
      ["model-2.safetensors", ["b", "10"]],
      ["model-1.safetensors", ["__proto__", 'c"']],
    ]);
    const text = encodeShardIndex(files, 12);
    assert.equal(
      text,
      [
        "{",
        '  "metadata": {',
        '    "total_size": 12',
        "  },",
        '  "weight_map": {',
        '    "10": "model-2.safetensors",',
        '    "__proto__": "model-1.safetensors",',
        '    "b": "model-2.safetensors",',
        '    "c\\"": "model-1.safetensors"',
        "  }",
        "}",
        "",
      ].join("\n"),
    );
    assert.deepEqual(parse(text), [
      ["model-1.safetensors", ["__proto__", 'c"']],
      ["model-2.safetensors", ["10", "b"]],
    ]);
  });
});
