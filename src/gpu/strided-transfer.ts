/**
 * Arrays with gaps between their elements, to and from bytes without gaps. Reading takes whole stretches of memory, gaps included,
 * in pieces, and picks the elements out by the CPU. Writing touches nothing but the elements, since the gaps may be someone else's.
 */
import { type BoundedPart, boundedParts } from "../array/bounded-parts.js";
import { contiguousRuns } from "../array/contiguous-runs.js";
import { type ArrayLayout, arrayByteLength, byteSpan, isContiguous } from "../array/layout.js";
import { gatherElements, scatterElements } from "../array/strided-copy.js";
import type { WaitOptions } from "../base/deadline.js";
import { limits } from "../base/limits.js";
import { nextTurn } from "./adaptive-wait.js";
import type { DeviceBuffer } from "./device-buffer.js";
import { download, upload } from "./transfer.js";

/** Copies of a write in parts before the event loop gets its turn. */
const COPIES_PER_TURN = 64;

/** Fills `target` with the elements in C order. */
export async function readStrided(
  buffer: DeviceBuffer,
  layout: ArrayLayout,
  target: Uint8Array,
  options: WaitOptions,
): Promise<void> {
  const { cpuVisible } = buffer.device;
  await buffer.use("read", options, async (mapped, deadline) => {
    for (const part of boundedParts(layout, limits.stagingBytes)) {
      deadline.check();
      const { low, high } = byteSpan(part.memory);
      if (cpuVisible) {
        pickOut(part, mapped.window(buffer.label, low, high - low), low, target);
        await nextTurn();
      } else {
        const stretch = new Uint8Array(high - low);
        await download(mapped, low, stretch, deadline);
        pickOut(part, stretch, low, target);
      }
    }
  });
}

/** Writes the elements, given in C order. On a GPU this is one copy for each stretch without gaps. */
export async function writeStrided(
  buffer: DeviceBuffer,
  layout: ArrayLayout,
  source: Uint8Array,
  options: WaitOptions,
): Promise<void> {
  const { cpuVisible } = buffer.device;
  await buffer.use("write", options, async (mapped, deadline) => {
    for (const part of boundedParts(layout, limits.stagingBytes)) {
      deadline.check();
      const bytes = inMemoryOrder(part, source);
      if (cpuVisible) {
        const { low, high } = byteSpan(part.memory);
        scatterElements(moved(part.memory, low), {
          memory: mapped.window(buffer.label, low, high - low),
          packed: bytes,
        });
        await nextTurn();
        continue;
      }
      let done = 0;
      let copies = 0;
      for (const run of contiguousRuns(part.memory)) {
        await upload(mapped, run.byteOffset, bytes.subarray(done, done + run.byteLength), deadline);
        done += run.byteLength;
        copies += 1;
        // WHY: copies this short are often done at once, and many of them in a row would hold up the event loop.
        if (copies % COPIES_PER_TURN === 0) await nextTurn();
      }
    }
  });
}

/** Copies a part from a stretch of memory that begins at byte `low` to where its elements belong among all. */
function pickOut(part: BoundedPart, stretch: Uint8Array, low: number, target: Uint8Array): void {
  const memory = moved(part.memory, low);
  if (isContiguous(part.packed)) {
    gatherElements(memory, { memory: stretch, packed: packedBytes(part, target) });
    return;
  }
  const packed = new Uint8Array(partBytes(part));
  gatherElements(memory, { memory: stretch, packed });
  scatterElements(part.packed, { memory: target, packed });
}

/** The elements of a part in the order in which they lie in memory. */
function inMemoryOrder(part: BoundedPart, source: Uint8Array): Uint8Array {
  if (isContiguous(part.packed)) return packedBytes(part, source);
  const packed = new Uint8Array(partBytes(part));
  gatherElements(part.packed, { memory: source, packed });
  return packed;
}

function packedBytes(part: BoundedPart, bytes: Uint8Array): Uint8Array {
  return bytes.subarray(part.packed.byteOffset, part.packed.byteOffset + partBytes(part));
}

function partBytes(part: BoundedPart): number {
  return arrayByteLength(part.memory.dtype, part.memory.shape);
}

/** The layout as seen from byte `low` on. */
function moved(layout: ArrayLayout, low: number): ArrayLayout {
  return { ...layout, byteOffset: layout.byteOffset - low };
}
