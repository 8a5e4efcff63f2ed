/**
 * Prometheus' own programs as judges of metrics and rules: `promtool`, and the parser of the Python
 * client. Without one its tests are skipped and say so.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";

const PROMTOOL = process.env.PROMTOOL ?? "promtool";
const PYTHON = process.env.PYTHON ?? "python3";

const PARSE = `
import json, sys
from prometheus_client.parser import text_string_to_metric_families
text = sys.stdin.buffer.read().decode("utf-8")
print(json.dumps([
    [sample.name, sample.labels, sample.value, family.type, family.documentation]
    for family in text_string_to_metric_families(text) for sample in family.samples
]))
`;

/** For the `skip` of a test: why promtool cannot run, or false. */
export const skipPromtool = whyNot("REQUIRE_PROMTOOL", PROMTOOL, "--version");

/** For the `skip` of a test: why Prometheus' parser in Python cannot run, or false. */
export const skipParser = whyNot("REQUIRE_PYTHON", PYTHON, "-c", "import prometheus_client");

export interface ParsedSample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
  readonly type: string;
  readonly help: string;
}

/** The time series in the text, as Prometheus' client for Python reads them. */
export function parsedMetrics(text: string): ParsedSample[] {
  const { status, stdout, stderr } = spawnSync(PYTHON, ["-c", PARSE], {
    input: text,
    encoding: "utf8",
    maxBuffer: 2 ** 26,
  });
  assert.equal(status, 0, stderr);
  return (JSON.parse(stdout) as [string, Record<string, string>, number, string, string][]).map(
    ([name, labels, value, type, help]) => ({ name, labels, value, type, help }),
  );
}

/** Runs promtool, which must find nothing to complain about. */
export function promtool(words: readonly string[], input = ""): string {
  const { status, stdout, stderr } = spawnSync(PROMTOOL, words, { input, encoding: "utf8" });
  assert.equal(status, 0, `promtool ${words.join(" ")}: ${stdout}${stderr}`);
  return stdout + stderr;
}

function whyNot(variable: string, program: string, ...words: string[]): string | false {
  if (spawnSync(program, words).status === 0 || process.env[variable] === "1") return false;
  return `no ${[program, ...words].join(" ")}`;
}
