/** What the user of `top` has chosen, changed by keys. Pure: it knows no terminal and no hub. */
import { channelsView } from "./channels-view.js";
import { clientsView } from "./clients-view.js";
import { devicesView } from "./devices-view.js";
import { objectsView } from "./objects-view.js";
import { servicesView } from "./services-view.js";
import { type AnyView, anyView, type Choice } from "./view.js";

export const views: readonly AnyView[] = [
  anyView(objectsView),
  anyView(channelsView),
  anyView(clientsView),
  anyView(servicesView),
  anyView(devicesView),
];

/** What a key asks of the command. `undefined`: only to draw again. */
export type Request = "quit" | "interrupt" | "suspend" | undefined;

type Id = number | string;

export class TopState {
  #view = 0;
  readonly #choices: Choice[];
  /** By view, the selected row. */
  readonly #selected = new Map<number, Id>();
  /** The rows that are drawn, and the first of them that is on the screen. */
  #ids: readonly Id[] = [];
  #first = 0;
  #pageRows = 1;
  #editing = false;
  #details = false;
  #help = false;
  #paused = false;
  /** The first line of details or help that is shown. */
  #scrolled = 0;

  constructor(filter = "") {
    this.#choices = views.map(({ sortedBy }) => ({ sortedBy, reversed: false, filter }));
  }

  get viewIndex(): number {
    return this.#view;
  }

  get view(): AnyView {
    return views[this.#view] as AnyView;
  }

  get choice(): Choice {
    return this.#choices[this.#view] as Choice;
  }

  /** The row with the cursor. Its index is that of the same row before, if it is still there. */
  get selected(): number {
    const id = this.#selected.get(this.#view);
    return id === undefined ? 0 : Math.max(0, this.#ids.indexOf(id));
  }

  /** The first row on the screen. */
  get first(): number {
    return this.#first;
  }

  /** Whether keys are letters of the filter. */
  get editing(): boolean {
    return this.#editing;
  }

  get showsDetails(): boolean {
    return this.#details;
  }

  get showsHelp(): boolean {
    return this.#help;
  }

  get paused(): boolean {
    return this.#paused;
  }

  get scrolled(): number {
    return this.#scrolled;
  }

  /** Says which rows there are and how many fit on the screen. Keys refer to that. */
  drawn(ids: readonly Id[], pageRows: number): void {
    const before = this.selected;
    this.#ids = ids;
    this.#pageRows = Math.max(1, pageRows);
    const id = this.#selected.get(this.#view);
    const isThere = id !== undefined && ids.includes(id);
    // The row has gone: the cursor stays at its place.
    if (!isThere && ids.length > 0) this.#select(Math.min(before, ids.length - 1));
    if (ids.length === 0) this.#details = false;
    const { selected } = this;
    const last = Math.max(0, ids.length - this.#pageRows);
    this.#first = Math.min(last, Math.max(selected - this.#pageRows + 1, this.#first));
    this.#first = Math.min(this.#first, selected);
  }

  /** Says how many lines of text there are, and how many fit on the screen. */
  drawnText(lines: number, pageRows: number): void {
    this.#pageRows = Math.max(1, pageRows);
    this.#scrolled = Math.min(this.#scrolled, Math.max(0, lines - this.#pageRows));
  }

  press(key: string): Request {
    if (key === "ctrl-c") return "interrupt";
    if (key === "ctrl-z") return "suspend";
    if (this.#editing) return this.#edit(key);
    if (key === "q") return "quit";
    if (this.#help || this.#details) return this.#read(key);
    return this.#browse(key);
  }

  #edit(key: string): undefined {
    const { filter } = this.choice;
    if (key === "return" || key === "enter") this.#editing = false;
    else if (key === "escape") {
      this.#editing = false;
      this.#choose({ filter: "" });
    } else if (key === "backspace") this.#choose({ filter: [...filter].slice(0, -1).join("") });
    else if ([...key].length === 1) this.#choose({ filter: filter + key });
    return undefined;
  }

  /** Keys of a page of text. */
  #read(key: string): undefined {
    const move = steps(key, this.#pageRows);
    if (move !== undefined) this.#scrolled = Math.max(0, this.#scrolled + move);
    else if (["escape", "return", "enter", "backspace", "left", "?", "h"].includes(key)) {
      this.#help = false;
      this.#details = false;
    }
    return undefined;
  }

  #browse(key: string): undefined {
    const move = steps(key, this.#pageRows);
    const index = Number(key) - 1;
    if (move !== undefined) this.#select(this.selected + move);
    else if (views[index] !== undefined) this.#view = index;
    else if (key === "tab" || key === "right") this.#turn(1);
    else if (key === "shift-tab" || key === "left") this.#turn(-1);
    else if (key === "return" || key === "enter") this.#details = this.#ids.length > 0;
    else if (key === "/") this.#editing = true;
    else if (key === "escape") this.#choose({ filter: "" });
    else if (key === "s") this.#sortBy(this.choice.sortedBy + 1);
    else if (key === "S") this.#sortBy(this.choice.sortedBy - 1);
    else if (key === "r") this.#choose({ reversed: !this.choice.reversed });
    else if (key === "p" || key === " ") this.#paused = !this.#paused;
    else if (key === "?" || key === "h") this.#help = true;
    if (this.#help || this.#details) this.#scrolled = 0;
    return undefined;
  }

  #turn(by: number): void {
    this.#view = (this.#view + by + views.length) % views.length;
  }

  #sortBy(column: number): void {
    const count = this.view.columns.length;
    this.#choose({ sortedBy: (column + count) % count });
  }

  #choose(changes: Partial<Choice>): void {
    this.#choices[this.#view] = { ...this.choice, ...changes };
  }

  #select(index: number): void {
    const id = this.#ids[Math.max(0, Math.min(this.#ids.length - 1, index))];
    if (id !== undefined) this.#selected.set(this.#view, id);
  }
}

/** How many rows a key moves. */
function steps(key: string, pageRows: number): number | undefined {
  switch (key) {
    case "up":
    case "k":
      return -1;
    case "down":
    case "j":
      return 1;
    case "pageup":
      return -pageRows;
    case "pagedown":
      return pageRows;
    case "home":
    case "g":
      return Number.NEGATIVE_INFINITY;
    case "end":
    case "G":
      return Number.POSITIVE_INFINITY;
    default:
      return undefined;
  }
}
