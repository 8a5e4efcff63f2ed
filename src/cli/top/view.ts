/** What a view of `top` is: a list of things with columns, an order, and details of each. */
import type { Rates } from "../../watch/rates.js";
import type { Snapshot, WatchedObject } from "../../watch/snapshot.js";
import type { FittedColumn } from "../terminal/fitted-table.js";

/** The latest snapshot, and the rates since the one before it. */
export interface Look {
  readonly snapshot: Snapshot;
  readonly rates: Rates | undefined;
  /** The objects of the snapshot by number, those without a name, too. */
  readonly objects: ReadonlyMap<number, WatchedObject>;
}

export function lookAt(snapshot: Snapshot, rates: Rates | undefined): Look {
  const all = [...snapshot.objects, ...snapshot.nameless];
  const objects = new Map(all.map((object) => [object.object, object]));
  return { snapshot, rates, objects };
}

export interface ViewColumn<Item> extends FittedColumn {
  text(item: Item, look: Look): string;
  /** What rows are sorted by. Numbers come largest first, texts in their order. */
  order(item: Item, look: Look): number | string;
}

/** A line of details: a title and a text. Without a title it belongs to the line before. */
export type Detail = readonly [title: string, text: string];

export interface View<Item> {
  readonly title: string;
  /** What to say if there is nothing. */
  readonly nothing: string;
  readonly columns: readonly ViewColumn<Item>[];
  /** The index of the column that sorts at first. */
  readonly sortedBy: number;
  items(look: Look): readonly Item[];
  /** The same in every snapshot. */
  id(item: Item): number | string;
  details(item: Item, look: Look): readonly Detail[];
}

/** WHY functions: of 10,000 rows few are shown. */
export interface ViewRow {
  readonly id: number | string;
  cells(): readonly string[];
  details(): readonly Detail[];
}

export interface Choice {
  /** The index of a column. */
  readonly sortedBy: number;
  readonly reversed: boolean;
  /** Only rows with this text in a cell, in upper or lower case. */
  readonly filter: string;
}

/** A view whose items are not seen from outside, so that all views have one type. */
export interface AnyView {
  readonly title: string;
  readonly nothing: string;
  readonly columns: readonly FittedColumn[];
  readonly sortedBy: number;
  rows(look: Look, choice: Choice): readonly ViewRow[];
}

export function anyView<Item>(view: View<Item>): AnyView {
  const { title, nothing, columns, sortedBy } = view;
  return { title, nothing, columns, sortedBy, rows: (look, choice) => rowsOf(view, look, choice) };
}

function rowsOf<Item>(view: View<Item>, look: Look, choice: Choice): ViewRow[] {
  const { columns } = view;
  const column = columns[choice.sortedBy] ?? columns[0];
  const wanted = choice.filter.toLowerCase();
  const sign = choice.reversed ? -1 : 1;
  return view
    .items(look)
    .map((item) => ({ item, key: column?.order(item, look) ?? 0 }))
    .sort((one, other) => sign * compared(one.key, other.key) || byId(view, one.item, other.item))
    .map(({ item }) => ({
      id: view.id(item),
      cells: () => columns.map((it) => it.text(item, look)),
      details: () => view.details(item, look),
    }))
    .filter(
      ({ cells }) => wanted === "" || cells().some((cell) => cell.toLowerCase().includes(wanted)),
    );
}

function compared(one: number | string, other: number | string): number {
  if (typeof one === "number" && typeof other === "number") return other - one;
  return String(one) < String(other) ? -1 : Number(one !== other);
}

/** WHY: rows that are equal must not change places from look to look. */
function byId<Item>(view: View<Item>, one: Item, other: Item): number {
  return view.id(one) < view.id(other) ? -1 : 1;
}
