/**
 * Reads and writes arrays with gaps between their elements. A read copies whole ranges of memory,
 * small gaps included, in pieces, and the CPU picks out the elements. A write touches only the
 * elements, because the gaps may belong to another array.
 */
import { type BoundedPart, boundedParts } from "../../array/bounded-parts.js";
import { contiguousRuns } from "../../array/coalesced-axes.js";
import { type ArrayLayout, arrayByteLength, byteSpan, isContiguous } from "../../array/layout.js";
import { gatherElements, scatterElements } from "../../array/strided-copy.js";
import type { WaitOptions } from "../../base/deadline.js";
import { limits } from "../../base/limits.js";
import { checkWait } from "../../base/wait-checks.js";
import type { DeviceBuffer } from "../memory/device-buffer.js";
import { nextTurn } from "../order/adaptive-wait.js";
import { download, upload } from "../transfer/byte-transfer.js";

/**
 * The event loop continues after this many copies, because short ones often finish at once, and
 * many in a row would block it.
 */
const COPIES_PER_TURN = 64;
/** A GPU copies this much in about the time that the start of another copy takes. */
const GAP_BYTES_MAX = 64 * 1024;

/** Fills `target` with the elements in C order. */
export async function readStrided(
  buffer: DeviceBuffer,
  layout: ArrayLayout,
  target: Uint8Array,
  options: WaitOptions,
): Promise<void> {
  checkWait(options);
  await buffer.use("read", options, async (mapped, deadline) => {
    // WHY one for all parts: much new memory keeps the garbage collector busy.
    let room = new Uint8Array(0);
    let copies = 0;
    let copiedBytes = 0;
    for (const part of boundedParts(layout, limits.stagingBytes, GAP_BYTES_MAX)) {
      deadline.check();
      const { low, high } = byteSpan(part.memory);
      if (room.byteLength < high - low) room = new Uint8Array(high - low);
      const stretch = room.subarray(0, high - low);
      await download(mapped, low, stretch, deadline);
      pickOut(part, stretch, low, target);
      copies += 1;
      copiedBytes += stretch.byteLength;
      if (copies < COPIES_PER_TURN && copiedBytes < limits.stagingBytes) continue;
      await nextTurn();
      copies = 0;
      copiedBytes = 0;
    }
  });
}

/** Writes the elements, given in C order. On a GPU this takes one copy per range without gaps. */
export async function writeStrided(
  buffer: DeviceBuffer,
  layout: ArrayLayout,
  source: Uint8Array,
  options: WaitOptions,
): Promise<void> {
  checkWait(options);
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
        if (copies % COPIES_PER_TURN === 0) await nextTurn();
      }
    }
  });
}

/** Copies a part from a range of memory that begins at byte `low` to its elements in `target`. */
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

/** Returns the elements of a part in memory order. */
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

/** The same layout with offsets relative to byte `low`. */
function moved(layout: ArrayLayout, low: number): ArrayLayout {
  return { ...layout, byteOffset: layout.byteOffset - low };
}
