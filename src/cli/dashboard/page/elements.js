// Makes elements. Text of other processes only ever becomes text nodes and titles.
export const byId = (id) => document.getElementById(id);

export function element(tag, text = "", classes = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = classes;
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

export function svgElement(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

export const numberWords = (value) =>
  Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(5)));

/** Swatches with how many elements are NaN or infinite. Empty if none are. */
export function specialLegend({ nanCount, positiveInfiniteCount, negativeInfiniteCount }) {
  const legend = element("p", "", "special");
  for (const [count, words, colour] of [
    [nanCount, "NaN", "nan"],
    [positiveInfiniteCount, "+infinity", "plus"],
    [negativeInfiniteCount, "-infinity", "minus"],
  ])
    if (count > 0) legend.append(element("span", "", `swatch ${colour}`), `${count} ${words} `);
  return legend;
}
