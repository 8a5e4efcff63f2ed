/** Aligns rows of text in columns as wide as their widest cell. */
import { printable } from "./printable.js";

export type Align = "left" | "right";

export interface Column {
  readonly title: string;
  readonly align?: Align | undefined;
}

/** Returns the title line and a line for each row, without trailing spaces. */
export function formatTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
): string[] {
  const titles = columns.map((column) => column.title);
  return alignRows(
    [titles, ...rows],
    columns.map((column) => column.align ?? "left"),
  );
}

/** Like `formatTable`, without titles. */
export function alignRows(
  rows: readonly (readonly string[])[],
  aligns: readonly Align[] = [],
): string[] {
  // Escaped before it is measured, because escaping makes text wider.
  const cells = rows.map((row) => row.map(printable));
  const widths: number[] = [];
  for (const row of cells) {
    row.forEach((cell, column) => {
      widths[column] = Math.max(widths[column] ?? 0, cell.length);
    });
  }
  return cells.map((row) =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0;
        return aligns[column] === "right" ? cell.padStart(width) : cell.padEnd(width);
      })
      .join("  ")
      .trimEnd(),
  );
}
