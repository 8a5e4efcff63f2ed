/** Turns samples into percentiles, and rows into a table. */
import { createHistogram } from "node:perf_hooks";

export interface Row {
  /** The name of the C program to compare with. */
  readonly name?: string;
  readonly what: string;
  readonly value: number;
  readonly unit: string;
  /** Why there is no value. The value is then NaN. */
  readonly missing?: string;
  /** The row of the same run that this one is compared with, and the ratio to it. */
  readonly comparedWith?: string;
  readonly ratio?: number;
  /** The goal in words, and whether it was met. */
  readonly goal?: string;
  readonly met?: boolean;
  /** The rounds. `value` is their median. */
  readonly rounds?: Figure;
  /** The same in C, or why there is none. */
  readonly inC?: Figure | string;
}

/** Figures of several rounds: the best and the middle median, and the latter's 99th percentile. */
export interface Figure {
  readonly best: number;
  readonly median: number;
  readonly p99: number;
}

export interface Percentiles {
  readonly p50: number;
  readonly p99: number;
}

/** Runs `once` after a warm-up. Returns percentiles of its time in microseconds. */
export async function sampleMicroseconds(
  count: number,
  once: () => Promise<void>,
): Promise<Percentiles> {
  for (let warm = 0; warm < Math.min(50, count); warm += 1) await once();
  const histogram = createHistogram();
  for (let index = 0; index < count; index += 1) {
    const start = process.hrtime.bigint();
    await once();
    histogram.record(process.hrtime.bigint() - start);
  }
  return { p50: histogram.percentile(50) / 1000, p99: histogram.percentile(99) / 1000 };
}

export function printRows(title: string, rows: readonly Row[]): void {
  console.log(`\n${title}`);
  for (const row of rows) {
    const ratio = row.ratio === undefined ? "" : `  ${row.ratio.toFixed(2)} x ${row.comparedWith}`;
    const goal = row.goal === undefined ? "" : `  [${row.met ? "met" : "MISSED"}: ${row.goal}]`;
    const value =
      row.missing === undefined
        ? `${format(row.value).padStart(8)} ${row.unit}`
        : `not measured: ${row.missing}`;
    console.log(`  ${row.what.padEnd(58)} ${value}${ratio}${goal}`);
  }
}

/** Rows that compare with C: medians of the rounds, the best in brackets. */
export function printSideBySide(title: string, rows: readonly Row[]): void {
  const lines = rows.map((row) => [
    row.name ?? "",
    row.what,
    ofRounds(row.rounds),
    typeof row.inC === "string" ? "-" : ofRounds(row.inC),
    row.ratio === undefined ? "-" : row.ratio.toFixed(2),
    row.goal === undefined ? "-" : `${row.met ? "met" : "MISSED"}: ${row.goal}`,
  ]);
  const table = [
    ["name", "what", `TypeScript ${rows[0]?.unit ?? ""}`, "C", "ratio", "goal"],
    ...lines,
  ];
  const widths =
    table[0]?.map((_, column) => Math.max(...table.map((cells) => cells[column]?.length ?? 0))) ??
    [];
  console.log(`\n${title}`);
  for (const cells of table) {
    console.log(
      `  ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ")}`.trimEnd(),
    );
  }
  for (const reason of new Set(rows.map((row) => row.inC).filter((it) => typeof it === "string"))) {
    console.log(`  Not in C: ${reason}`);
  }
}

function ofRounds(figure: Figure | undefined): string {
  return figure === undefined ? "-" : `${format(figure.median)} (${format(figure.best)})`;
}

function format(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}
