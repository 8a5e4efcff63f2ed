/** Suggests known words for a misspelt one. */

const EDITS_MAX = 2;
const NEAR_MAX = 3;

/**
 * Returns the known words within two edits of `word`, and those that begin with it, the nearest
 * first. A short word may have fewer edits, because almost every word is near to it.
 */
export function nearWords(word: string, known: readonly string[]): string[] {
  const meant = word.toLowerCase();
  const editsMax = Math.min(EDITS_MAX, Math.floor(meant.length / 3));
  return known
    .map((candidate) => ({ candidate, edits: editsFrom(meant, candidate) }))
    .filter(({ edits }) => edits <= editsMax)
    .sort((one, other) => one.edits - other.edits)
    .slice(0, NEAR_MAX)
    .map(({ candidate }) => candidate);
}

/** Returns ` Did you mean "slots"?` or "". */
export function didYouMean(word: string, known: readonly string[]): string {
  const near = nearWords(word, known).map((candidate) => JSON.stringify(candidate));
  return near.length === 0 ? "" : ` Did you mean ${near.join(" or ")}?`;
}

function editsFrom(meant: string, candidate: string): number {
  const other = candidate.toLowerCase();
  if (meant.length > 2 && other.startsWith(meant)) return 1;
  return Math.abs(meant.length - other.length) > EDITS_MAX
    ? EDITS_MAX + 1
    : editDistance(meant, other);
}

/** Counts the letters to insert, remove, replace or swap with their neighbour. */
function editDistance(one: string, other: string): number {
  const rows = [Array.from({ length: other.length + 1 }, (_, column) => column)];
  const at = (row: number, column: number) => rows[row]?.[column] ?? 0;
  for (let row = 1; row <= one.length; row += 1) {
    rows.push([row]);
    for (let column = 1; column <= other.length; column += 1) {
      const differs = one[row - 1] === other[column - 1] ? 0 : 1;
      let edits = Math.min(
        at(row - 1, column) + 1,
        at(row, column - 1) + 1,
        at(row - 1, column - 1) + differs,
      );
      const isSwap = one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1];
      if (row > 1 && column > 1 && isSwap) edits = Math.min(edits, at(row - 2, column - 2) + 1);
      rows[row]?.push(edits);
    }
  }
  return at(one.length, other.length);
}
