// Charts of the last minutes. Lines are SVG paths, so they need no style attributes and no redraw
// when the page is resized. All charts of a page share one cursor.
import { element } from "./elements.js";
import { sizeWords } from "./tables.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [1000, 100];
/** The time that a chart shows: the shortest one that has all samples, or the longest. */
const RANGES_MS = [60_000, 120_000, 300_000];
/** A longer time without a sample is a gap. */
const GAP_MS = 3500;

const plain = (value) => String(value < 10 ? Number(value.toFixed(1)) : Math.round(value));
const unitWords = {
  bytes: sizeWords,
  "bytes/s": (value) => `${sizeWords(value)}/s`,
  count: plain,
  "per second": (value) => `${plain(value)}/s`,
  ms: (value) => (value < 1 ? `${Math.round(value * 1000)} us` : `${plain(value)} ms`),
};

function path(classes, d = "") {
  const made = document.createElementNS(SVG, "path");
  made.setAttribute("class", classes);
  made.setAttribute("d", d);
  return made;
}

/** The smallest round number that is not below the value. */
function roundUp(value, unit) {
  if (!(value > 0)) return 1;
  const base = unit.startsWith("bytes") ? 2 : 10;
  const power = base ** Math.floor(Math.log2(value) / Math.log2(base));
  return power * ([1, 1.5, 2, 3, 4, 6, 8].find((one) => one * power >= value) ?? 10);
}

export class Charts {
  element = element("div", "", "charts");
  #charts = new Map();
  #agesMs = [];
  #rangeMs = RANGES_MS[0];
  /** The index of the sample under the cursor. Undefined: the latest values are shown. */
  #cursor;

  /** @param agesMs of the samples, before the latest one, the oldest first */
  update(agesMs, charts) {
    this.#agesMs = agesMs;
    this.#cursor = undefined;
    const oldest = agesMs.find((age) => age <= RANGES_MS.at(-1)) ?? 0;
    this.#rangeMs = RANGES_MS.find((range) => range >= oldest) ?? RANGES_MS.at(-1);
    for (const [title, { figure }] of this.#charts) {
      if (charts.some((chart) => chart.title === title)) continue;
      figure.remove();
      this.#charts.delete(title);
    }
    for (const chart of charts) {
      const known = this.#charts.get(chart.title) ?? this.#make(chart.title);
      this.#draw(Object.assign(known, chart));
    }
  }

  #make(title) {
    const figure = element("figure", "", "chart");
    figure.tabIndex = 0;
    figure.ariaLabel = title;
    const caption = element("figcaption");
    const keys = element("ul", "", "keys");
    caption.append(element("strong", title), element("span", "", "when"), keys);
    const plot = element("div", "", "plot");
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    plot.append(svg, ...["max", "zero", "start", "end"].map((one) => element("span", "", one)));
    figure.append(caption, plot);
    plot.onpointermove = ({ clientX }) => {
      const { left, width } = svg.getBoundingClientRect();
      this.#moveTo(this.#sampleAt((1 - (clientX - left) / width) * this.#rangeMs));
    };
    plot.onpointerleave = figure.onblur = () => this.#moveTo(undefined);
    figure.onkeydown = ({ key }) => {
      const latest = this.#agesMs.length - 1;
      const from = this.#cursor ?? latest;
      const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: latest }[key];
      if (to !== undefined) this.#moveTo(Math.min(latest, Math.max(0, to)));
    };
    const chart = { figure, keys, plot, svg, title };
    this.#charts.set(title, chart);
    this.element.append(figure);
    return chart;
  }

  #sampleAt(ageMs) {
    let found = 0;
    for (const [i, age] of this.#agesMs.entries())
      if (Math.abs(age - ageMs) <= Math.abs(this.#agesMs[found] - ageMs)) found = i;
    return found;
  }

  #moveTo(cursor) {
    this.#cursor = cursor;
    for (const chart of this.#charts.values()) this.#drawCursor(chart);
  }

  #draw(chart) {
    const { svg, plot, lines, unit } = chart;
    const shown = lines.flatMap(({ values }) =>
      values.filter((value, i) => value !== null && this.#agesMs[i] <= this.#rangeMs),
    );
    const top = roundUp(Math.max(0, ...shown), unit);
    const [grid, cursor] = [path("grid", "M0 1H1000M0 50H1000M0 99H1000"), path("cursor")];
    // The first line is drawn last, over the others.
    const drawn = lines.map(({ colour, values }) => path(`line c${colour}`, this.#d(values, top)));
    svg.replaceChildren(grid, ...drawn.reverse(), cursor);
    plot.querySelector(".max").textContent = unitWords[unit](top);
    plot.querySelector(".zero").textContent = "0";
    plot.querySelector(".start").textContent = `${this.#rangeMs / 60_000} min ago`;
    plot.querySelector(".end").textContent = "now";
    chart.cursor = cursor;
    this.#drawCursor(chart);
  }

  /** Separate samples become dots, because the ends of lines are round. */
  #d(values, top) {
    let d = "";
    let [last, beforeMs] = ["", Number.POSITIVE_INFINITY];
    for (const [i, value] of values.entries()) {
      const age = this.#agesMs[i];
      if (value === null || age > this.#rangeMs) {
        last = "";
        continue;
      }
      const y = HEIGHT - 1 - (value / top) * (HEIGHT - 2);
      const point = `${this.#x(age).toFixed(1)} ${y.toFixed(2)}`;
      d += last === "" || beforeMs - age > GAP_MS ? `M${point}L${point}` : `L${point}`;
      [last, beforeMs] = [point, age];
    }
    return d;
  }

  #x(ageMs) {
    return WIDTH * (1 - ageMs / this.#rangeMs);
  }

  #drawCursor({ cursor, figure, keys, lines, unit }) {
    const at = this.#cursor ?? this.#agesMs.length - 1;
    const age = this.#agesMs[at] ?? 0;
    const isMoved = this.#cursor !== undefined;
    cursor.setAttribute("d", isMoved ? `M${this.#x(age)} 0V${HEIGHT}` : "");
    figure.querySelector(".when").textContent = isMoved ? `${Math.round(age / 1000)} s ago` : "";
    const entries = lines.map(({ label, colour, values }) => {
      const entry = element("li");
      const value = values[at];
      const words = value === null || value === undefined ? "-" : unitWords[unit](value);
      entry.append(element("span", "", `swatch c${colour}`), `${label} `, element("b", words));
      return entry;
    });
    keys.replaceChildren(...entries);
  }
}
