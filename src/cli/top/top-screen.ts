/** The screen of `top` as lines, for a terminal of any size. */
import { fittedTable } from "../terminal/fitted-table.js";
import type { Line } from "../terminal/full-screen.js";
import { printable } from "../terminal/printable.js";
import { textWidth } from "../terminal/text-width.js";
import { deviceLine } from "./device-line.js";
import { helpLines } from "./help-text.js";
import { hubTrouble, hubWords } from "./hub-line.js";
import { type TopState, views } from "./top-state.js";
import type { Look } from "./view.js";
import { wrapped } from "./wrapped-text.js";

export interface ScreenSize {
  readonly columns: number;
  readonly rows: number;
}

/** In a lower terminal, devices are only in their view. */
const ROWS_FOR_DEVICES = 12;
/** In a lower terminal, there are only rows. */
const ROWS_FOR_FRAME = 6;

/** Also tells the state what is on the screen. */
export function screenLines(
  look: Look | undefined,
  state: TopState,
  size: ScreenSize,
  nowMs: number,
): Line[] {
  const { columns, rows } = size;
  if (look === undefined) return [[{ text: "Looking for the hub ..." }]];
  const hasFrame = rows >= ROWS_FOR_FRAME;
  const head = hasFrame ? headLines(look, state, size, nowMs) : [];
  const foot = hasFrame || state.editing ? footLines(state, columns) : [];
  const space = Math.max(1, rows - head.length - foot.length);
  const body = bodyLines(look, state, columns, space);
  while (body.length < space) body.push([]);
  return [...head, ...body.slice(0, space), ...foot].slice(0, rows);
}

function headLines({ snapshot }: Look, state: TopState, size: ScreenSize, nowMs: number): Line[] {
  const { hub, devices, gpusUnknown } = snapshot;
  const { columns, rows } = size;
  const trouble = hubTrouble(hub, nowMs);
  const first: Line = [
    { text: "cuda-ipc top", style: "bold" },
    { text: `  ${hubWords(hub, nowMs)}${state.paused ? "  (paused)" : ""}` },
  ];
  // A third of the screen at most.
  const room = rows < ROWS_FOR_DEVICES ? 0 : Math.max(1, Math.floor(rows / 3) - 3);
  const shown = devices.slice(0, room);
  const more = devices.length - shown.length;
  const gpus = `GPUs: totals unknown (${gpusUnknown})`;
  return [
    first,
    ...(trouble === undefined ? [] : [[{ text: trouble, style: "red" as const }]]),
    ...shown.map((device) => deviceLine(device, columns)),
    ...(room > 0 && more > 0 ? [[{ text: `and ${more} more devices` }]] : []),
    ...(room > 0 && gpusUnknown !== undefined ? [[{ text: gpus, style: "dim" as const }]] : []),
    tabLine(countsOf(snapshot), state),
  ];
}

/** How many things each view has. */
function countsOf({ objects, channels, clients, services, devices }: Look["snapshot"]): number[] {
  return [objects, channels, clients, services, devices].map(({ length }) => length);
}

function tabLine(counts: readonly number[], state: TopState): Line {
  return views.flatMap(({ title }, index) => {
    const text = `${index + 1} ${title} ${counts[index]}`;
    const isShown = index === state.viewIndex;
    return [{ text: index === 0 ? "" : "  " }, { text, style: isShown ? "inverse" : "dim" }];
  });
}

function bodyLines(look: Look, state: TopState, columns: number, space: number): Line[] {
  if (state.showsHelp) return textLines(helpLines, state, columns, space);
  const { view, choice } = state;
  const rows = view.rows(look, choice);
  const page = Math.max(1, space - 1);
  state.drawn(
    rows.map(({ id }) => id),
    page,
  );
  const selected = rows[state.selected];
  if (state.showsDetails && selected !== undefined)
    return textLines(selected.details(), state, columns, space);
  const nothing = choice.filter === "" ? view.nothing : `Nothing matches "${choice.filter}".`;
  if (rows.length === 0) return [[{ text: nothing }]];
  const shown = rows.slice(state.first, state.first + page);
  const sorted = view.columns.map((column, index) =>
    index === choice.sortedBy ? { ...column, title: `${column.title}*` } : column,
  );
  const cells = shown.map((row) => row.cells());
  const { title, lines } = fittedTable(sorted, cells, columns);
  return [
    [{ text: title, style: "bold" }],
    ...lines.map((text, index): Line => {
      const isSelected = state.first + index === state.selected;
      return [{ text, style: isSelected ? "inverse" : undefined }];
    }),
  ];
}

/** Titles and texts, which are wrapped: nothing is cut off. */
function textLines(
  details: readonly (readonly [string, string])[],
  state: TopState,
  columns: number,
  space: number,
): Line[] {
  const indent = Math.min(
    Math.max(...details.map(([title]) => textWidth(title))) + 2,
    Math.floor(columns / 2),
  );
  const lines = details.flatMap(([title, text]): Line[] =>
    wrapped(printable(text), Math.max(1, columns - indent)).map((part, index) => [
      { text: (index === 0 ? title : "").padEnd(indent).slice(0, indent), style: "dim" },
      { text: part },
    ]),
  );
  state.drawnText(lines.length, space);
  return lines.slice(state.scrolled, state.scrolled + space);
}

const TEXT_KEYS = ["Esc back", "Up/Down scroll", "q quit"];
const LIST_KEYS = [
  "q quit",
  "? help",
  "Enter details",
  "Tab view",
  "/ filter",
  "s sort",
  "r reverse",
  "p pause",
];

/** As many keys as fit, each whole. */
function footLines(state: TopState, columns: number): Line[] {
  const { editing, choice } = state;
  if (editing) return [[{ text: `filter: ${choice.filter}_` }]];
  const filter = choice.filter === "" ? [] : [`filter: ${choice.filter}`];
  const parts = state.showsDetails || state.showsHelp ? TEXT_KEYS : [...filter, ...LIST_KEYS];
  let text = "";
  for (const part of parts) {
    const longer = text === "" ? part : `${text}  ${part}`;
    if (textWidth(longer) > columns) break;
    text = longer;
  }
  return [[{ text, style: "dim" }]];
}
