/**
 * Arrays with gaps between their elements, to and from bytes without gaps. Reading takes whole stretches of memory, gaps included,
 * in pieces, and picks the elements out by the CPU. Writing touches nothing but the elements, since the gaps may be someone else's.
 */

import { contiguousRuns } from "../array/contiguous-runs.js";
import { type ArrayLayout, arrayByteLength, byteSpan } from "../array/layout.js";
import { gatherElements, scatterElements } from "../array/strided-copy.js";
import type { Deadline, WaitOptions } from "../base/deadline.js";
import { limits } from "../base/limits.js";
import { nextTurn } from "./adaptive-wait.js";
import type { DeviceBuffer } from "./device-buffer.js";
import type { MappedMemory } from "./mapped-memory.js";
import { download, upload } from "./transfer.js";

/** Fills `target` with the elements in C order. */
export async function readStrided(
  buffer: DeviceBuffer,
  layout: ArrayLayout,
  target: Uint8Array,
  options: WaitOptions,
): Promise<void> {
  const onHost = buffer.device.driver.kind === "host";
  await buffer.use("read", options, async (mapped, deadline) => {
    for (const { part, packedOffset } of boundedParts(layout, 0)) {
      deadline.check();
      const { low, high } = byteSpan(part);
      const packed = target.subarray(packedOffset, packedOffset + arrayByteLength(part.dtype, part.shape));
      const gather = (memory: Uint8Array) =>
        gatherElements({ ...part, byteOffset: part.byteOffset - low }, { memory, packed });
      if (onHost) {
        gather(mapped.window(buffer.label, low, high - low));
        await nextTurn();
      } else {
        const stretch = new Uint8Array(high - low);
        await download(mapped, low, stretch, deadline);
        gather(stretch);
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
  await buffer.use("write", options, async (mapped, deadline) => {
    if (buffer.device.driver.kind === "host") {
      await scatterOnHost(mapped, buffer.label, { layout, source, deadline });
      return;
    }
    let packedOffset = 0;
    for (const run of contiguousRuns(layout)) {
      const part = source.subarray(packedOffset, packedOffset + run.byteLength);
      await upload(mapped, run.byteOffset, part, deadline);
      packedOffset += run.byteLength;
    }
  });
}

async function scatterOnHost(
  mapped: MappedMemory,
  label: string,
  work: { readonly layout: ArrayLayout; readonly source: Uint8Array; readonly deadline: Deadline },
): Promise<void> {
  const { layout, source, deadline } = work;
  for (const { part, packedOffset } of boundedParts(layout, 0)) {
    deadline.check();
    const { low, high } = byteSpan(part);
    const packed = source.subarray(packedOffset, packedOffset + arrayByteLength(part.dtype, part.shape));
    const memory = mapped.window(label, low, high - low);
    scatterElements({ ...part, byteOffset: part.byteOffset - low }, { memory, packed });
    await nextTurn();
  }
}

interface Part {
  readonly part: ArrayLayout;
  /** Where the part's first element is among the bytes without gaps. */
  readonly packedOffset: number;
}

/** Cuts an array along its outer axes until each part spans no more than one piece of a transfer, or is a single element. */
function* boundedParts(layout: ArrayLayout, packedOffset: number): Generator<Part, void, undefined> {
  const byteLength = arrayByteLength(layout.dtype, layout.shape);
  if (byteLength === 0) return;
  const span = byteSpan(layout);
  const axis = layout.shape.findIndex((size) => size > 1);
  if (span.high - span.low <= limits.stagingBytes || axis < 0) {
    yield { part: layout, packedOffset };
    return;
  }
  const size = layout.shape[axis] ?? 1;
  const half = Math.floor(size / 2);
  const firstBytes = (byteLength / size) * half;
  const elementBytes = arrayByteLength(layout.dtype, []);
  const step = (layout.strides[axis] ?? 0) * elementBytes;
  yield* boundedParts({ ...layout, shape: resized(layout.shape, axis, half) }, packedOffset);
  const rest = {
    ...layout,
    shape: resized(layout.shape, axis, size - half),
    byteOffset: layout.byteOffset + half * step,
  };
  yield* boundedParts(rest, packedOffset + firstBytes);
}

function resized(shape: readonly number[], axis: number, size: number): number[] {
  return shape.map((old, index) => (index === axis ? size : old));
}
