/**
 * Prometheus' text format, version 0.0.4.
 * docs: https://prometheus.io/docs/instrumenting/exposition_formats/
 */

import { printable } from "../../base/printable.js";

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
const SPECIAL = /[\p{Cc}\p{Bidi_Control}\u2028\u2029\\"\ud800-\udfff]/u;

/**
 * A label as it is shown: what could control a terminal is escaped. WHY through bytes: half of a
 * surrogate pair has no form in UTF-8, so two labels that differ in it only are the same to
 * Prometheus.
 */
export function shownText(text: string): string {
  return Buffer.from(printable(text)).toString();
}

function quoted(text: string): string {
  return SPECIAL.test(text) ? escaped(shownText(text)).replaceAll('"', '\\"') : text;
}

function numberText(value: number): string {
  if (Number.isFinite(value) || Number.isNaN(value)) return String(value);
  return value > 0 ? "+Inf" : "-Inf";
}
