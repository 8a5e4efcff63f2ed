/**
 * Counts descriptors and mapped memory that this package holds in this process, for leak checks.
 */
import { mappedBytes } from "../os/mapping.js";
import { openFdCount } from "../os/owned-fd.js";

export interface ProcessCounts {
  readonly fds: number;
  readonly mappedBytes: number;
}

export function processCounts(): ProcessCounts {
  return { fds: openFdCount(), mappedBytes: mappedBytes() };
}
