// Where the cells of a map are. Nothing here touches the page.

/**
 * Divides a rectangle into one for each size, in proportion, and as square as possible.
 * See "Squarified Treemaps" by Bruls, Huizing and van Wijk.
 * @param sizes above 0, the largest first
 */
export function squarified(sizes, { x, y, width, height }) {
  const rects = [];
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const scale = total > 0 ? (width * height) / total : 0;
  let rest = { x, y, width, height };
  for (let first = 0; first < sizes.length; ) {
    const side = Math.min(rest.width, rest.height);
    let sum = sizes[first];
    let end = first + 1;
    for (; end < sizes.length; end += 1) {
      const wider = sum + sizes[end];
      const isBetter =
        worstRatio(sizes[first], sizes[end], wider, scale, side) <=
        worstRatio(sizes[first], sizes[end - 1], sum, scale, side);
      if (!isBetter) break;
      sum = wider;
    }
    rest = placeLine(sizes.slice(first, end), sum * scale, rest, rects);
    first = end;
  }
  return rects;
}

/** How far the least square cell of a line is from a square. */
function worstRatio(largest, smallest, sum, scale, side) {
  const area = sum * scale;
  return Math.max(
    (side * side * largest * scale) / (area * area),
    (area * area) / (side * side * smallest * scale),
  );
}

/** Puts cells along the shorter side, and returns what is left of the rectangle. */
function placeLine(sizes, area, { x, y, width, height }, rects) {
  const sum = sizes.reduce((all, size) => all + size, 0);
  const isColumn = width >= height;
  const side = isColumn ? height : width;
  // WHY a limit: what is left of the rectangle is rounded, which shows if it is very thin.
  const depth = side > 0 ? Math.min(area / side, isColumn ? width : height) : 0;
  let at = 0;
  for (const size of sizes) {
    const length = (side * size) / sum;
    if (isColumn) rects.push({ x, y: y + at, width: depth, height: length });
    else rects.push({ x: x + at, y, width: length, height: depth });
    at += length;
  }
  return isColumn
    ? { x: x + depth, y, width: width - depth, height }
    : { x, y: y + depth, width, height: height - depth };
}

/** A cell of less than this many square pixels cannot be pointed at. */
const CELL_AREA_MIN = 320;

/**
 * The cells of one holder: its largest objects, and one cell for all that would be too small.
 * @param objects with `bytes` above 0, the largest first
 * @param areaOfByte square pixels
 */
export function cellsOf(objects, areaOfByte) {
  const end = objects.findIndex(({ bytes }) => bytes * areaOfByte < CELL_AREA_MIN);
  // One alone stays what it is.
  if (end < 0 || end === objects.length - 1)
    return objects.map((object) => ({ bytes: object.bytes, object }));
  const shown = objects.slice(0, end).map((object) => ({ bytes: object.bytes, object }));
  const smaller = objects.slice(end);
  const joined = { bytes: smaller.reduce((sum, { bytes }) => sum + bytes, 0), smaller };
  const after = shown.findIndex(({ bytes }) => bytes < joined.bytes);
  shown.splice(after < 0 ? shown.length : after, 0, joined);
  return shown;
}

/** Objects by their oldest holder, the largest holders first, and all after the `most`-th as one. */
export function groupedByHolder(objects, most) {
  const groups = new Map();
  for (const object of objects) {
    if (!(object.bytes > 0)) continue;
    const group = groups.get(object.holder);
    if (group === undefined)
      groups.set(object.holder, { who: object.holder, bytes: object.bytes, objects: [object] });
    else {
      group.bytes += object.bytes;
      group.objects.push(object);
    }
  }
  const largestFirst = (one, other) => other.bytes - one.bytes || (one.id ?? 0) - (other.id ?? 0);
  const sorted = [...groups.values()].sort(largestFirst);
  const rest = sorted.splice(sorted.length > most + 1 ? most : sorted.length);
  if (rest.length > 0) {
    const bytes = rest.reduce((sum, group) => sum + group.bytes, 0);
    const who = `${rest.length} more holders`;
    sorted.push({ who, bytes, objects: rest.flatMap((group) => group.objects), isRest: true });
    sorted.sort(largestFirst);
  }
  for (const group of sorted) group.objects.sort(largestFirst);
  return sorted;
}
