import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { exposition, type Family } from "../../../../src/watch/metrics/exposition.js";

const family = (samples: Family["samples"]): Family => ({
  name: "a_bytes",
  type: "gauge",
  help: 'a\\b\n"c"',
  samples,
});

describe("the exposition format", () => {
  it("has help, type and one line for each sample", () => {
    const text = exposition([family([{ value: 1 }, { labels: { x: "y", n: 2 }, value: 0.5 }])]);
    assert.equal(
      text,
      '# HELP a_bytes a\\\\b\\n"c"\n# TYPE a_bytes gauge\na_bytes 1\na_bytes{x="y",n="2"} 0.5\n',
    );
  });

  it("escapes quotes and backslashes of labels, and what could control a terminal", () => {
    const labelOf = (x: string) =>
      exposition([family([{ labels: { x }, value: 1 }])])
        .split("\n")
        .at(-2);
    assert.equal(labelOf('q"b\\é😀'), 'a_bytes{x="q\\"b\\\\é😀"} 1');
    assert.equal(labelOf("a\ud800b"), 'a_bytes{x="a\ufffdb"} 1');
    assert.equal(labelOf("\u001b[31m\n\0"), 'a_bytes{x="\\\\u001b[31m\\\\u000a\\\\u0000"} 1');
    assert.equal(labelOf("\u202e\u2028"), 'a_bytes{x="\\\\u202e\\\\u2028"} 1');
  });

  it("leaves out labels, samples and metrics that are missing", () => {
    assert.equal(exposition([family([undefined]), family([])]), "");
    const text = exposition([family([{ labels: { x: undefined }, value: 3 }, undefined])]);
    assert.ok(text.endsWith("gauge\na_bytes 3\n"));
  });

  it("spells numbers as Prometheus reads them", () => {
    const values = [1e21, 2 ** 53, -1, Number.NaN, Number.POSITIVE_INFINITY, -1 / 0];
    const text = exposition([family(values.map((value, n) => ({ labels: { n }, value })))]);
    const found = [...text.matchAll(/\} (\S+)$/gm)].map((match) => match[1]);
    assert.deepEqual(found, ["1e+21", "9007199254740992", "-1", "NaN", "+Inf", "-Inf"]);
  });
});
