/** Draws the text of a terminal as SVG, so that a picture of it is small, sharp and readable. */

const CELL_WIDTH = 8.4;
const LINE_HEIGHT = 18;
const FONT_SIZE = 14;
const MARGIN = 12;

/** @param title is read aloud instead of the picture */
export function screenSvg(title: string, text: string, columns: number): string {
  const lines = text.split("\n");
  const width = Math.ceil(columns * CELL_WIDTH + 2 * MARGIN);
  const height = lines.length * LINE_HEIGHT + 2 * MARGIN;
  const texts = lines.flatMap((line, row) => {
    const y = MARGIN + row * LINE_HEIGHT + FONT_SIZE;
    // The length keeps columns straight in any font.
    const length = (line.length * CELL_WIDTH).toFixed(1);
    const place = `x="${MARGIN}" y="${y}" textLength="${length}"`;
    return line === "" ? [] : [`<text ${place} xml:space="preserve">${escaped(line)}</text>`];
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img"`,
    `  aria-labelledby="title" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="${FONT_SIZE}">`,
    `<title id="title">${escaped(title)}</title>`,
    `<rect width="${width}" height="${height}" rx="8" fill="#12161d"/>`,
    `<g fill="#e6eaf1">`,
    ...texts,
    "</g>",
    "</svg>",
    "",
  ].join("\n");
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
