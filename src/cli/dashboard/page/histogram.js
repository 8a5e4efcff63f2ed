// Draws how often which values occur.
import { element, numberWords, specialLegend, svgElement } from "./elements.js";

const HEIGHT = 100;
/** Of the width of a bar, so that neighbours can be told apart. */
const BAR = 0.9;

/** The values that a bar stands for. */
function barWords({ from, to, counts, isDiscrete }, i) {
  if (counts.length === 1 || isDiscrete) return numberWords(from + i);
  const at = (share) => numberWords(from * (1 - share) + to * share);
  return `${at(i / counts.length)} to ${at((i + 1) / counts.length)}`;
}

function bars(histogram, height) {
  const { counts } = histogram;
  const svg = svgElement("svg", {
    viewBox: `0 0 ${counts.length} ${HEIGHT}`,
    preserveAspectRatio: "none",
    role: "img",
  });
  const most = Math.max(...counts);
  const fullest = counts.indexOf(most);
  const label = `Most are ${barWords(histogram, fullest)}: ${most} of ${histogram.elementCount}`;
  svg.setAttribute("aria-label", label);
  counts.forEach((count, i) => {
    // The whole column shows the words, also where the bar is low.
    const column = svgElement("g", {});
    const title = svgElement("title", {});
    title.textContent = `${barWords(histogram, i)}: ${count}`;
    const high = count === 0 ? 0 : Math.max(1, HEIGHT * height(count, most));
    column.append(
      title,
      svgElement("rect", { class: "column", x: i, y: 0, width: 1, height: HEIGHT }),
      svgElement("rect", { class: "count", x: i, y: HEIGHT - high, width: BAR, height: high }),
    );
    svg.append(column);
  });
  return svg;
}

const linear = (count, most) => count / most;
const logarithmic = (count, most) => Math.log1p(count) / Math.log1p(most);

export function histogramElement(histogram) {
  const { from, to, counts, of } = histogram;
  const made = element("figure", "", "histogram");
  if (counts.length > 0) {
    const axis = element("div", "", "axis");
    const middle = of === "magnitude" ? "magnitude" : "value";
    axis.append(
      ...[numberWords(from), middle, numberWords(to)].map((text) => element("span", text)),
    );
    const log = element("input");
    log.type = "checkbox";
    const label = element("label", "", "log");
    label.append(log, "Logarithmic counts");
    made.append(bars(histogram, linear), axis, label);
    log.onchange = () =>
      made.querySelector("svg").replaceWith(bars(histogram, log.checked ? logarithmic : linear));
  }
  made.append(specialLegend(histogram));
  return made;
}
