/** A histogram as text: a line with a bar for each part of the range. */
import type { Histogram } from "../../array/histogram.js";
import { formatTable } from "../terminal/table.js";
import { plural } from "../terminal/words.js";

const BAR_CELLS = 30;

/** @param ofElements how many elements the array has. The histogram may be of a sample. */
export function histogramLines(histogram: Histogram, ofElements: number): string[] {
  const { counts, elementCount, finiteCount, of } = histogram;
  if (finiteCount === 0) return ["  no finite values to count"];
  const most = Math.max(...counts);
  const rows = counts.map((count, i) => {
    // Rounded up: a value that occurs is seen, however rare it is.
    const cells = Math.ceil((BAR_CELLS * count) / most);
    return [`  ${partWords(histogram, i)}`, String(count), "#".repeat(cells)];
  });
  const columns = [
    { title: of === "magnitude" ? "  MAGNITUDES" : "  VALUES" },
    { title: "COUNT", align: "right" },
  ] as const;
  const lines = formatTable(columns, rows);
  if (elementCount === ofElements) return lines;
  return [...lines, `  from ${elementCount} of ${plural(ofElements, "element")}, evenly spread`];
}

/** `3`, or `0.5 to 0.75`. */
function partWords({ from, to, counts, isDiscrete }: Histogram, i: number): string {
  if (isDiscrete || counts.length === 1) return short(from + i);
  const at = (share: number) => short(from * (1 - share) + to * share);
  return `${at(i / counts.length)} to ${at((i + 1) / counts.length)}`;
}

function short(value: number): string {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(5)));
}
