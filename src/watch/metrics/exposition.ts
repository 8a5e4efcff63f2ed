/**
 * Prometheus' text format, version 0.0.4.
 * docs: https://prometheus.io/docs/instrumenting/exposition_formats/
 */

/** Labels that are undefined are left out. */
export type Labels = Readonly<Record<string, string | number | undefined>>;

export interface Sample {
  readonly labels?: Labels;
  readonly value: number;
}

/** A metric with its time series. Counters only grow, and their names end with `_total`. */
export interface Family {
  readonly name: string;
  readonly type: "gauge" | "counter";
  readonly help: string;
  /** No two of them have the same labels. A missing value is left out. */
  readonly samples: readonly (Sample | undefined)[];
}

export const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** The whole text. A metric without time series is left out. */
export function exposition(families: readonly Family[]): string {
  return families.map(familyText).join("");
}

function familyText({ name, type, help, samples }: Family): string {
  const lines = samples.flatMap((sample) => (sample === undefined ? [] : [line(name, sample)]));
  if (lines.length === 0) return "";
  return `# HELP ${name} ${escaped(help)}\n# TYPE ${name} ${type}\n${lines.join("")}`;
}

function line(name: string, { labels = {}, value }: Sample): string {
  const pairs = Object.entries(labels).flatMap(([label, text]) =>
    text === undefined ? [] : [`${label}="${quoted(String(text))}"`],
  );
  return `${name}${pairs.length === 0 ? "" : `{${pairs.join(",")}}`} ${numberText(value)}\n`;
}

function escaped(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}

/** Most labels have none of these. */
const SPECIAL = /[\\\n"\ud800-\udfff]/;

/**
 * As UTF-8 has it. WHY through bytes: half of a surrogate pair has no form there, so two labels
 * that differ in it only are the same to Prometheus.
 */
export function wellFormed(text: string): string {
  return Buffer.from(text).toString();
}

function quoted(text: string): string {
  if (!SPECIAL.test(text)) return text;
  return escaped(wellFormed(text)).replaceAll('"', '\\"');
}

function numberText(value: number): string {
  if (Number.isFinite(value) || Number.isNaN(value)) return String(value);
  return value > 0 ? "+Inf" : "-Inf";
}
