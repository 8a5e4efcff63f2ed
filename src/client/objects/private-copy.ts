/** The access `copy` on devices that cannot copy on write: copies of arrays, made when needed. */
import { type ArrayLayout, byteSpan } from "../../array/layout.js";
import type { WaitOptions } from "../../base/deadline.js";
import { acquireInAsync, releaseAll } from "../../base/scope.js";
import { CopiedMemory } from "../../gpu/memory/copied-memory.js";
import { DeviceBuffer } from "../../gpu/memory/device-buffer.js";

/** Replaces the buffer, which it closes, by a copy of its content. */
export async function copyNow(
  original: DeviceBuffer,
  { signal, timeoutMs }: WaitOptions,
): Promise<DeviceBuffer> {
  return acquireInAsync(async (scope) => {
    // Within the scope: if the original cannot be closed, the copy is closed, too.
    using source = original;
    const copy = scope.own(beginCopy(source, 0, source.byteLength), (it) => it.close());
    await copy.ready({ signal, timeoutMs });
    // Throws if its owner has freed it meanwhile.
    source.memory.checkInUse();
    return copy;
  });
}

/** Arrays that are copied together. */
interface Group {
  readonly low: number;
  high: number;
  buffer: DeviceBuffer | undefined;
}

/**
 * Copies of a bundle's arrays, each made when the array is first asked for. WHY in groups: a device
 * allocates whole granules (2 MiB on a GPU), and many arrays of a model are small. Arrays that
 * share bytes are in one group.
 */
export class BundleCopies {
  readonly #source: DeviceBuffer;
  readonly #layouts: Iterable<ArrayLayout>;
  #groups: ReadonlyMap<ArrayLayout, Group> | undefined;

  constructor(source: DeviceBuffer, layouts: Iterable<ArrayLayout>) {
    this.#source = source;
    this.#layouts = layouts;
  }

  /** @throws OUT_OF_MEMORY */
  of(layout: ArrayLayout): { readonly buffer: DeviceBuffer; readonly layout: ArrayLayout } {
    const { facts } = this.#source.device;
    this.#groups ??= groupsOf(this.#layouts, facts.granularityBytes, facts.alignmentBytes);
    const group = this.#groups.get(layout) as Group;
    group.buffer ??= beginCopy(this.#source, group.low, group.high - group.low);
    return {
      buffer: group.buffer,
      layout: { ...layout, byteOffset: layout.byteOffset - group.low },
    };
  }

  close(): void {
    const groups = new Set(this.#groups?.values() ?? []);
    releaseAll([...groups].map((group) => () => group.buffer?.close()));
  }
}

function groupsOf(
  layouts: Iterable<ArrayLayout>,
  enoughBytes: number,
  alignmentBytes: number,
): ReadonlyMap<ArrayLayout, Group> {
  const spans = [...layouts].map((layout) => ({ layout, ...byteSpan(layout) }));
  const groups = new Map<ArrayLayout, Group>();
  let last: Group | undefined;
  for (const { layout, low, high } of spans.sort((a, b) => a.low - b.low)) {
    if (last === undefined || (low >= last.high && last.high - last.low >= enoughBytes))
      last = { low: low - (low % alignmentBytes), high, buffer: undefined };
    last.high = Math.max(last.high, high);
    groups.set(layout, last);
  }
  return groups;
}

function beginCopy(source: DeviceBuffer, byteOffset: number, byteLength: number): DeviceBuffer {
  const memory = CopiedMemory.begin(source.memory, byteOffset, byteLength);
  return DeviceBuffer.over(memory, { label: source.label, byteLength, access: "read-write" });
}
