/** The tables of a page of Markdown. */
import assert from "node:assert/strict";

/** Rows without the head; each cell as text, without the marks for code. */
export type Table = readonly (readonly string[])[];

/**
 * @param heading of the section that the table stands in, without the marks
 * @param number of the table in that section, from 0
 */
export function tableOf(page: string, heading: string, number = 0): Table {
  const from = page.search(new RegExp(`^#+ ${escaped(heading)}$`, "m"));
  assert.ok(from >= 0, `there is no section "${heading}"`);
  const section = page.slice(page.indexOf("\n", from)).split(/^#+ /m)[0] as string;
  const blocks = section.match(/(^ *\|.*\n)+/gm) ?? [];
  const block = blocks[number];
  assert.ok(block !== undefined, `section "${heading}" has no table ${number}`);
  const lines = block.trim().split("\n");
  return lines.slice(2).map((line) => cellsOf(line));
}

function cellsOf(line: string): string[] {
  const cells = line.trim().slice(1, -1).split("|");
  return cells.map((cell) => cell.replaceAll(/[`*]/g, "").trim());
}

function escaped(text: string): string {
  return text.replaceAll(/[()[\].]/g, "\\$&");
}

/** The names in a cell: `a`, `b?` gives both, without what follows a name. */
export function namesIn(cell: string | undefined): string[] {
  return (cell ?? "").split(", ").filter((name) => name !== "");
}
