/** What was removed from src for a moment to see the matrix fail: something for each step and each fault. */

export interface Protection {
  /** The step or the fault. */
  readonly of: string;
  readonly removed: string;
  /** Cells, by name. */
  readonly seenFailing: readonly string[];
}

export const protections: readonly Protection[] = [];
