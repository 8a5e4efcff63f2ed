/** Lines of a table in a given width: leaves out less important columns, then narrows wide ones. */
import { printable } from "./printable.js";
import { inWidth, textWidth } from "./text-width.js";

export interface FittedColumn {
  readonly title: string;
  readonly align: "left" | "right";
  /** Columns with a larger rank are left out first. The first column is never left out. */
  readonly rank: number;
  /** How narrow it may become. Without it, a column is as wide as its widest cell. */
  readonly widthMin?: number | undefined;
}

const GAP = "  ";
/** Less important columns are shown if more important ones keep so much of their width. */
const WANTED_WIDTH = 24;
/** How narrow the first column becomes for others of rank 0. */
const FIRST_WIDTH_MIN = 8;

/** A title line and a line for each row, none wider than `width`. */
export function fittedTable(
  columns: readonly FittedColumn[],
  rows: readonly (readonly string[])[],
  width: number,
): { readonly title: string; readonly lines: readonly string[] } {
  const cells = rows.map((row) => row.map(printable));
  const natural = columns.map(({ title }, column) =>
    Math.max(textWidth(title), ...cells.map((row) => textWidth(row[column] ?? ""))),
  );
  const shown = fitting(columns, natural, width);
  const widths = narrowed(columns, natural, shown, width);
  const line = (row: readonly string[]) =>
    shown
      .map((column, index) => inWidth(row[column] ?? "", widths[index] ?? 0, alignOf(column)))
      .join(GAP);
  const alignOf = (column: number) => columns[column]?.align ?? "left";
  return { title: line(columns.map(({ title }) => title)), lines: cells.map(line) };
}

/** The columns that are shown, in their order. */
function fitting(
  columns: readonly FittedColumn[],
  natural: readonly number[],
  width: number,
): number[] {
  const least = (column: number) =>
    Math.min(natural[column] ?? 0, columns[column]?.widthMin ?? Number.POSITIVE_INFINITY);
  const wanted = (column: number) =>
    Math.max(least(column), Math.min(natural[column] ?? 0, WANTED_WIDTH));
  const byRank = columns.map((_, column) => column);
  byRank.sort((one, other) => (columns[one]?.rank ?? 0) - (columns[other]?.rank ?? 0));
  const shown: number[] = [];
  for (const column of byRank) {
    const isNeeded = columns[column]?.rank === 0;
    const before = (other: number) =>
      isNeeded ? Math.min(least(other), FIRST_WIDTH_MIN) : wanted(other);
    const others = shown.reduce((sum, other) => sum + before(other) + GAP.length, 0);
    if (column !== 0 && others + least(column) > width) break;
    shown.push(column);
  }
  return shown.sort((one, other) => one - other);
}

/** Narrows the least important of the columns that may become narrower, until all fit. */
function narrowed(
  columns: readonly FittedColumn[],
  natural: readonly number[],
  shown: readonly number[],
  width: number,
): number[] {
  const widths = shown.map((column) => natural[column] ?? 0);
  let over = widths.reduce((sum, one) => sum + one, GAP.length * (shown.length - 1)) - width;
  const byRank = shown.map((column, index) => ({ ...columns[column], index }));
  byRank.sort((one, other) => (other.rank ?? 0) - (one.rank ?? 0));
  for (const { index, widthMin } of byRank) {
    const before = widths[index] ?? 0;
    const spare = widthMin === undefined ? 0 : Math.max(0, before - widthMin);
    const less = Math.max(0, Math.min(over, spare));
    widths[index] = before - less;
    over -= less;
  }
  return over > 0 ? cutOff(widths, over) : widths;
}

/** For a terminal that is narrower than what must be shown: the first column becomes narrower. */
function cutOff(widths: readonly number[], over: number): number[] {
  return widths.map((width, index) => (index === 0 ? Math.max(1, width - over) : width));
}
