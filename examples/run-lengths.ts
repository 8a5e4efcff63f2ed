/** Run-length encoding: the smallest "codec" that needs no library. */

/** A run of equal pixels. */
type Run = readonly [value: number, length: number];

/** The "file" of frame number `frame`. Neighbouring runs have different values. */
export function runsOf(frame: number, elements: number): Run[] {
  const runs: Run[] = [];
  for (let [at, k] = [0, 0]; at < elements; k += 1) {
    const length = Math.min(elements - at, 1 + ((frame * 7 + k * 13) % 79));
    runs.push([(frame * 31 + k) % 251, length]);
    at += length;
  }
  return runs;
}

/** Decodes a file. */
export function pixelsOf(runs: readonly Run[], elements: number): Int32Array {
  const pixels = new Int32Array(elements);
  let at = 0;
  for (const [value, length] of runs) {
    pixels.fill(value, at, at + length);
    at += length;
  }
  return pixels;
}

/** Encodes pixels: values and lengths of the runs, in turns. */
export function encodedRuns(pixels: Int32Array): number[] {
  const runs: number[] = [];
  for (let [start, end] = [0, 0]; start < pixels.length; start = end) {
    while (end < pixels.length && pixels[end] === pixels[start]) end += 1;
    runs.push(pixels[start] ?? 0, end - start);
  }
  return runs;
}
