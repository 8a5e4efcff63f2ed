/** Prints what `inspect` has found. */
import type { Inspection } from "../../client/hub-options.js";
import { readerLines } from "../channel/channel-text.js";
import { printable } from "../terminal/printable.js";
import { alignRows, formatTable } from "../terminal/table.js";
import type { Terminal } from "../terminal/terminal.js";
import { arrayWords, contentWords, sizeWords } from "../terminal/words.js";
import { histogramLines } from "./histogram-text.js";
import {
  type ArrayFacts,
  contentFacts,
  layoutRows,
  type OpenedFacts,
  objectFacts,
  type Row,
} from "./inspection-rows.js";

const ARRAYS_SHOWN = 20;

export function printInspection(
  terminal: Terminal,
  inspection: Inspection,
  opened: OpenedFacts,
  all: boolean,
): void {
  const { object } = inspection;
  terminal.line(
    `${terminal.style("bold", printable(object.name))}: ${contentWords(object.descriptor)}`,
  );
  printRows(terminal, objectFacts(inspection, opened));
  if (opened.array !== undefined) {
    terminal.line();
    terminal.line(
      `${terminal.style("bold", printable(opened.array.name))}: ${arrayWords(opened.array)}`,
    );
    printRows(terminal, [...layoutRows(opened.array)]);
  }
  printRows(terminal, contentFacts(opened));
  printHistogram(terminal, opened);
  if (opened.channel !== undefined)
    for (const line of readerLines(opened.channel)) terminal.line(line);
  if (opened.arrays !== undefined) printArrays(terminal, opened.arrays, all);
}

function printHistogram(terminal: Terminal, { histogram, values }: OpenedFacts): void {
  if (histogram === undefined || values === undefined) return;
  const { statistics, sampledOf = statistics.elementCount } = values;
  const [titles = "", ...lines] = histogramLines(histogram, sampledOf);
  terminal.line();
  terminal.line(terminal.style("bold", titles));
  for (const line of lines) terminal.line(line);
}

function printRows(terminal: Terminal, rows: readonly Row[]): void {
  for (const line of alignRows(rows.map(([title, text]) => [`  ${title.padEnd(10)}`, text])))
    terminal.line(line);
}

function printArrays(terminal: Terminal, arrays: readonly ArrayFacts[], all: boolean): void {
  const shown = all ? arrays : arrays.slice(0, ARRAYS_SHOWN);
  const rows = shown.map((array) => [
    `  ${array.name}`,
    arrayWords(array),
    sizeWords(array.byteLength),
  ]);
  const columns = [
    { title: "  ARRAY" },
    { title: "WHAT" },
    { title: "SIZE", align: "right" },
  ] as const;
  const [titles = "", ...lines] = formatTable(columns, rows);
  terminal.line();
  terminal.line(arrays.length === 0 ? "  no arrays" : terminal.style("bold", titles));
  for (const line of lines) terminal.line(line);
  if (shown.length < arrays.length)
    terminal.line(`  and ${arrays.length - shown.length} more: see --all`);
}
