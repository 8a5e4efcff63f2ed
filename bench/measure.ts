/** Timing and its words: samples to percentiles, rows to a table. */
import { createHistogram } from "node:perf_hooks";

export interface Row {
  readonly what: string;
  readonly value: number;
  readonly unit: string;
  /** What it is compared with in the same run, and the ratio to it; undefined where it stands alone. */
  readonly comparedWith?: string;
  readonly ratio?: number;
  /** What was promised, in words, and whether it was kept. */
  readonly goal?: string;
  readonly met?: boolean;
}

export interface Percentiles {
  readonly p50: number;
  readonly p99: number;
}

/** Runs `once` after a warm-up and gives percentiles of its time in microseconds. */
export async function sampleMicroseconds(count: number, once: () => Promise<void>): Promise<Percentiles> {
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
    const value = row.value >= 100 ? row.value.toFixed(0) : row.value.toPrecision(3);
    const ratio = row.ratio === undefined ? "" : `  ${row.ratio.toFixed(2)} x ${row.comparedWith}`;
    const goal = row.goal === undefined ? "" : `  [${row.met ? "met" : "MISSED"}: ${row.goal}]`;
    console.log(`  ${row.what.padEnd(58)} ${value.padStart(8)} ${row.unit}${ratio}${goal}`);
  }
}
