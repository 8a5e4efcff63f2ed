/**
 * What a file holds and how it goes into memory: the layouts of its arrays, and which of its bytes go where. Reads headers only.
 */
import type { FileHandle } from "node:fs/promises";
import { type DType, dtypeFacts } from "../array/dtype.js";
import { type ArrayLayout, arrayByteLength, contiguousLayout } from "../array/layout.js";
import { CudaIpcError } from "../base/errors.js";
import { packBundle } from "../client/bundle-packing.js";
import type { FileFormat } from "../files/file-format.js";
import { fileByteLength } from "../files/file-piece.js";
import { readNpyHeader } from "../files/npy-header.js";
import { readSafetensorsHeader, type SafetensorsHeader } from "../files/safetensors-header.js";

export interface LoadPlan {
  readonly content:
    | { readonly kind: "array"; readonly layout: ArrayLayout }
    | {
        readonly kind: "bundle";
        readonly layouts: ReadonlyMap<string, ArrayLayout>;
        readonly metadata: Readonly<Record<string, string>>;
      };
  /** Bytes of memory that are needed. */
  readonly byteLength: number;
  readonly moves: readonly Move[];
}

/** Bytes of the file that go to one place in memory. */
interface Move {
  readonly fileByteOffset: number;
  readonly memoryByteOffset: number;
  readonly byteLength: number;
}

/** How to take bytes of no format. */
export interface RawOptions {
  readonly dtype?: DType | undefined;
  readonly shape?: readonly number[] | undefined;
}

/** @throws INVALID_FILE, UNSUPPORTED_DTYPE */
export async function planLoad(
  file: FileHandle,
  fileName: string,
  format: FileFormat,
  raw: RawOptions,
): Promise<LoadPlan> {
  if (format === "npy") return planNpy(file, fileName);
  if (format === "safetensors") return planSafetensors(await readSafetensorsHeader(file, fileName));
  return planRaw(await fileByteLength(file, fileName), fileName, raw);
}

async function planNpy(file: FileHandle, fileName: string): Promise<LoadPlan> {
  const { dtype, shape, strides, dataByteOffset, dataByteLength } = await readNpyHeader(file, fileName);
  return {
    content: { kind: "array", layout: { dtype, shape, strides, byteOffset: 0 } },
    byteLength: dataByteLength,
    moves: [{ fileByteOffset: dataByteOffset, memoryByteOffset: 0, byteLength: dataByteLength }],
  };
}

/** The file's own layout where a GPU can work on it as it is, so that all data go in one move; else each array aligned. */
function planSafetensors(header: SafetensorsHeader): LoadPlan {
  const metadata = Object.fromEntries(header.metadata);
  const aligned = header.arrays.every(({ dtype, byteOffset }) => byteOffset % dtypeFacts(dtype).byteSize === 0);
  if (aligned) {
    const layouts = new Map(
      header.arrays.map(({ name, dtype, shape, byteOffset }) => [name, contiguousLayout(dtype, shape, byteOffset)]),
    );
    const { dataByteOffset, dataByteLength } = header;
    const moves = [{ fileByteOffset: dataByteOffset, memoryByteOffset: 0, byteLength: dataByteLength }];
    return { content: { kind: "bundle", layouts, metadata }, byteLength: dataByteLength, moves };
  }
  const { layouts, byteLength } = packBundle(new Map(header.arrays.map((array) => [array.name, array])));
  const moves = header.arrays.map(({ name, byteOffset, byteLength }) => ({
    fileByteOffset: header.dataByteOffset + byteOffset,
    memoryByteOffset: layouts.get(name)?.byteOffset ?? 0,
    byteLength,
  }));
  return { content: { kind: "bundle", layouts, metadata }, byteLength, moves };
}

function planRaw(byteLength: number, fileName: string, { dtype = "uint8", shape }: RawOptions): LoadPlan {
  const elements = byteLength / dtypeFacts(dtype).byteSize;
  const wanted = arrayByteLength(dtype, shape ?? [Math.floor(elements)]);
  if (wanted !== byteLength) {
    const found = shape === undefined ? `no whole number of ${dtype}` : `${dtype}[${shape.join(", ")}] has ${wanted}`;
    throw new CudaIpcError(
      "INVALID_FILE",
      `Cannot read ${JSON.stringify(fileName)}: it has ${byteLength} bytes, ${found}`,
    );
  }
  return {
    content: { kind: "array", layout: contiguousLayout(dtype, shape ?? [elements]) },
    byteLength,
    moves: [{ fileByteOffset: 0, memoryByteOffset: 0, byteLength }],
  };
}
