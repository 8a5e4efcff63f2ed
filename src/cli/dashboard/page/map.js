// Draws the memory of each device to scale: all of it as a bar, and below, larger, a cell for each
// object. Cells of one holder are together and have one colour.
import { byId, element } from "./elements.js";
import { objects, sizeWords, state } from "./tables.js";
import { cellsOf, groupedByHolder, squarified } from "./treemap.js";

const COLOURS = 7;
/** Smaller cells have no name in them. */
const NAME_WIDTH_MIN = 44;
const NAME_HEIGHT_MIN = 18;
const SIZE_HEIGHT_MIN = 34;
/** Narrower cells of smaller objects say `+42`. */
const SMALLER_WIDTH_MIN = 96;

const HINT = "Each object as a cell, in the colour of its holder.";

const maps = new Map();
let open = () => {};
let listSmaller = () => {};

/** What to do when an object is chosen, and when the smaller objects are. */
export function onChosen(onObject, onSmaller) {
  open = onObject;
  listSmaller = onSmaller;
}

/** Colours by holder, which keep theirs as long as they are among the largest. */
function coloursFor(groups, before) {
  const kept = new Map();
  for (const { who } of groups) if (before.has(who)) kept.set(who, before.get(who));
  const free = Array.from({ length: COLOURS + 1 }, (_, i) => i).filter(
    (i) => ![...kept.values()].includes(i),
  );
  for (const { who, isRest } of groups) if (!isRest && !kept.has(who)) kept.set(who, free.shift());
  return kept;
}

class DeviceMap {
  element = element("section", "", "device");
  #title = element("h2");
  #bar = element("div", "", "bar");
  #shares = element("ul", "", "shares");
  #cells = element("div", "", "cells");
  #pointed = element("p", "", "pointed");
  #legend = element("ul", "", "legend");
  /** By the number of an object, or by the holder whose smaller objects are joined. */
  #buttons = new Map();
  #colours = new Map();
  /** Undefined until they are known. The space for their cells is kept meanwhile. */
  #objects;
  #size = "";

  constructor() {
    this.element.append(
      ...[this.#title, this.#bar, this.#shares, this.#cells, this.#pointed, this.#legend],
    );
    this.#bar.ariaHidden = "true";
    this.#cells.role = "group";
    this.#cells.onkeydown = (event) => this.#move(event);
    this.#cells.onpointerover = ({ target }) => this.#point(target);
    this.#cells.addEventListener("focusin", ({ target }) => this.#point(target));
    this.#cells.onpointerleave = () => this.#point(this.#cells.querySelector(":focus"));
    this.#pointed.ariaHidden = "true";
    this.#point();
    new ResizeObserver(() => this.#drawCells(false)).observe(this.#cells);
  }

  /** @param found the objects on the device. Undefined if they are as before. */
  draw(device, found) {
    const { device: id, model, totalBytes, heldBytes, othersBytes } = device;
    const name = id === "host" ? "Host memory" : `${model ?? "GPU"} ${id.slice(0, 12)}`;
    const of = totalBytes === undefined ? "" : ` of ${sizeWords(totalBytes)}`;
    const title = `${name}: ${sizeWords(heldBytes)}${of} held by objects`;
    if (this.#title.textContent !== title) this.#title.textContent = title;
    this.#title.title = id;
    this.element.ariaLabel = name;
    this.#cells.ariaLabel = `Objects in ${name} by holder`;
    this.#drawBar(heldBytes, othersBytes, totalBytes);
    if (found === undefined) return;
    this.#objects = found;
    this.#drawCells(true);
  }

  #drawBar(held, others = 0, total = 0) {
    const whole = Math.max(total, held + others);
    const parts = [
      ["objects", "held", held],
      ["anything else", "others", others],
      ["free", "free", Math.max(0, whole - held - others)],
    ];
    if (this.#bar.childElementCount === 0) {
      for (const [, kind] of parts) {
        this.#bar.append(element("span", "", kind));
        const share = element("li");
        share.append(element("span", "", `swatch ${kind}`), "");
        this.#shares.append(share);
      }
    }
    parts.forEach(([words, , bytes], i) => {
      const part = this.#bar.children[i];
      part.style.flexGrow = whole > 0 ? bytes / whole : 0;
      part.hidden = bytes === 0;
      const share = this.#shares.children[i];
      // How much is free is only known of a device whose size is.
      share.hidden = bytes === 0 && words !== "objects";
      const text = `${words} ${sizeWords(bytes)}`;
      if (share.lastChild.data !== text) share.lastChild.data = text;
      part.title = text;
    });
  }

  #drawCells(isNew) {
    if (this.#objects === undefined) return;
    this.#cells.hidden = !this.#objects.some(({ bytes }) => bytes > 0);
    this.#pointed.hidden = this.#cells.hidden;
    const { clientWidth: width, clientHeight: height } = this.#cells;
    const size = `${width} ${height}`;
    if (!isNew && size === this.#size) return;
    this.#size = size;
    const groups = groupedByHolder(this.#objects, COLOURS);
    this.#colours = coloursFor(groups, this.#colours);
    const total = groups.reduce((sum, { bytes }) => sum + bytes, 0);
    const places = squarified(
      groups.map(({ bytes }) => bytes),
      { x: 0, y: 0, width, height },
    );
    const drawn = groups.flatMap((group, i) => {
      const cells = cellsOf(group.objects, (width * height) / total);
      const rects = squarified(
        cells.map(({ bytes }) => bytes),
        places[i],
      );
      return cells.map((cell, at) => this.#cell(cell, group, rects[at]));
    });
    this.#keepOnly(drawn);
    this.#drawLegend(groups);
  }

  #cell({ bytes, object, smaller }, group, { x, y, width, height }) {
    const key = object?.id ?? `smaller of ${group.who}`;
    const button = this.#buttons.get(key) ?? element("button");
    this.#buttons.set(key, button);
    const name = object?.name ?? `${smaller.length} smaller`;
    const shown = object === undefined && width < SMALLER_WIDTH_MIN ? `+${smaller.length}` : name;
    const holders = object?.holders ?? group.who;
    const words = `${name}, ${sizeWords(bytes)}, held by ${holders}`;
    if (button.ariaLabel !== words) button.ariaLabel = words;
    button.type = "button";
    button.className = `cell ${this.#colourOf(group)}`;
    const { style } = button;
    style.left = `${x}px`;
    style.top = `${y}px`;
    style.width = `${width}px`;
    style.height = `${height}px`;
    const hasName = width >= NAME_WIDTH_MIN && height >= NAME_HEIGHT_MIN;
    const lines = hasName ? [shown] : [];
    if (hasName && height >= SIZE_HEIGHT_MIN) lines.push(sizeWords(bytes));
    const text = lines.join("\n");
    if (button.textContent !== text) button.replaceChildren(element("span", text));
    button.onclick = () => (object === undefined ? listSmaller(smaller[0]) : open(object));
    return key;
  }

  /** The buttons with these keys, in their order. One of them is in the order of the Tab key. */
  #keepOnly(keys) {
    const kept = new Set(keys);
    for (const [key, button] of this.#buttons) {
      if (kept.has(key)) continue;
      button.remove();
      this.#buttons.delete(key);
    }
    const wanted = keys.map((key) => this.#buttons.get(key));
    wanted.forEach((button, i) => {
      if (this.#cells.children[i] === button) return;
      this.#cells.insertBefore(button, this.#cells.children[i] ?? null);
    });
    const current = wanted.find((button) => button === document.activeElement) ?? wanted[0];
    for (const button of wanted) button.tabIndex = button === current ? 0 : -1;
  }

  #drawLegend(groups) {
    const entries = groups.map((group) => {
      const entry = element("li");
      const swatch = element("span", "", `swatch ${this.#colourOf(group)}`);
      const count = group.objects.length === 1 ? "1 object" : `${group.objects.length} objects`;
      entry.append(swatch, `${group.who}: ${sizeWords(group.bytes)} in ${count}`);
      return entry;
    });
    this.#legend.replaceChildren(...entries);
  }

  #colourOf({ who, isRest }) {
    return isRest ? "rest" : `c${this.#colours.get(who)}`;
  }

  #point(target) {
    this.#pointed.textContent = target?.closest?.(".cell")?.ariaLabel ?? HINT;
  }

  #move(event) {
    const cells = [...this.#cells.children];
    const at = cells.indexOf(document.activeElement);
    const to = {
      ArrowRight: at + 1,
      ArrowDown: at + 1,
      ArrowLeft: at - 1,
      ArrowUp: at - 1,
      Home: 0,
      End: cells.length - 1,
    }[event.key];
    const next = cells[to];
    if (next === undefined) return;
    event.preventDefault();
    for (const cell of cells) cell.tabIndex = cell === next ? 0 : -1;
    next.focus();
  }
}

/** @param isChanged whether objects came, went or changed since the last call */
export function drawDevices(isChanged) {
  const byDevice = isChanged ? Map.groupBy(objects.values(), ({ device }) => device) : new Map();
  for (const device of state.devices) {
    const id = device.device;
    if (!maps.has(id)) {
      maps.set(id, new DeviceMap());
      byId("devices").append(maps.get(id).element);
    }
    maps.get(id).draw(device, isChanged ? (byDevice.get(id) ?? []) : undefined);
  }
  const known = new Set(state.devices.map(({ device }) => device));
  for (const [id, map] of maps) {
    if (known.has(id)) continue;
    map.element.remove();
    maps.delete(id);
  }
  const words =
    state.gpusUnknown === undefined ? "" : `GPUs cannot be asked: ${state.gpusUnknown}.`;
  byId("gpus-unknown").textContent = words;
}
