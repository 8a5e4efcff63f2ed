/**
 * Plans how files go into memory: the layouts of the arrays, and which bytes of which file go
 * where. Pure.
 */
import { BUNDLE_ALIGNMENT_BYTES, packBundle } from "../array/bundle-packing.js";
import { type DType, dtypeFacts } from "../array/dtype.js";
import { type ArrayLayout, arrayByteLength, contiguousLayout } from "../array/layout.js";
import { roundUp } from "../base/bytes.js";
import { invalidFile } from "./file-errors.js";
import type { NpyHeader } from "./npy-header.js";
import { opaqueMetadata } from "./opaque-dtypes.js";
import type { SafetensorsHeader } from "./safetensors-header.js";
import type { FileFacts } from "./source-file.js";

export interface LoadPlan {
  readonly content:
    | { readonly kind: "array"; readonly layout: ArrayLayout }
    | {
        readonly kind: "bundle";
        readonly layouts: ReadonlyMap<string, ArrayLayout>;
        readonly metadata: Readonly<Record<string, string>>;
      };
  /** Bytes of memory needed. */
  readonly byteLength: number;
  readonly moves: readonly Move[];
}

/** A range of one file that goes into memory in one piece. */
export interface Move {
  /** The index of the file. */
  readonly file: number;
  readonly fileByteOffset: number;
  readonly memoryByteOffset: number;
  readonly byteLength: number;
}

/** The dtype and shape of a file without a format. */
export interface RawOptions {
  readonly dtype?: DType | undefined;
  readonly shape?: readonly number[] | undefined;
}

/** A safetensors file whose header was read. */
export interface ReadShard {
  readonly fileName: string;
  readonly header: SafetensorsHeader;
}

export function planNpy({
  dtype,
  shape,
  strides,
  dataByteOffset,
  dataByteLength,
}: NpyHeader): LoadPlan {
  return {
    content: { kind: "array", layout: { dtype, shape, strides, byteOffset: 0 } },
    byteLength: dataByteLength,
    moves: [
      { file: 0, fileByteOffset: dataByteOffset, memoryByteOffset: 0, byteLength: dataByteLength },
    ],
  };
}

/** @throws INVALID_FILE if dtype and shape need another file size */
export function planRaw(
  { byteLength, fileName }: FileFacts,
  { dtype = "uint8", shape }: RawOptions,
): LoadPlan {
  const elements = byteLength / dtypeFacts(dtype).byteSize;
  const wanted = arrayByteLength(dtype, shape ?? [Math.floor(elements)]);
  if (wanted !== byteLength) {
    const found =
      shape === undefined
        ? `no whole number of ${dtype}`
        : `${dtype}[${shape.join(", ")}] has ${wanted}`;
    throw invalidFile(fileName, `it has ${byteLength} bytes, ${found}`);
  }
  return {
    content: { kind: "array", layout: contiguousLayout(dtype, shape ?? [elements]) },
    byteLength,
    moves: [{ file: 0, fileByteOffset: 0, memoryByteOffset: 0, byteLength }],
  };
}

/**
 * Plans one bundle of all arrays of all files. Metadata on which files disagree is left out.
 * @throws INVALID_FILE if two files have an array of the same name
 */
export function planBundle(shards: readonly ReadShard[]): LoadPlan {
  const layouts = new Map<string, ArrayLayout>();
  const moves: Move[] = [];
  let byteLength = 0;
  for (const [file, { fileName, header }] of shards.entries()) {
    const part = placeShard(header, file, roundUp(byteLength, BUNDLE_ALIGNMENT_BYTES));
    for (const [name, layout] of part.layouts) {
      if (layouts.has(name)) {
        const other = shards.find((shard) =>
          shard.header.arrays.some((array) => array.name === name),
        )?.fileName;
        const text = JSON.stringify(name.length > 200 ? `${name.slice(0, 200)}...` : name);
        throw invalidFile(fileName, `array ${text} is in ${JSON.stringify(other)} as well`);
      }
      layouts.set(name, layout);
    }
    moves.push(...part.moves);
    byteLength = part.byteLength;
  }
  const opaque = shards.flatMap(({ header }) =>
    header.arrays.flatMap((array) =>
      array.opaque === undefined ? [] : [opaqueMetadata(array.name, array.opaque)],
    ),
  );
  const common = commonMetadata(shards.map(({ header }) => header.metadata));
  const metadata = { ...common, ...Object.fromEntries(opaque) };
  return { content: { kind: "bundle", layouts, metadata }, byteLength, moves };
}

interface PlacedShard {
  readonly layouts: ReadonlyMap<string, ArrayLayout>;
  readonly moves: readonly Move[];
  /** The offset where its memory ends. */
  readonly byteLength: number;
}

/**
 * Keeps the file's layout if it suits a GPU, so all data is one move. Otherwise aligns each array.
 */
function placeShard(
  { arrays, dataByteOffset, dataByteLength }: SafetensorsHeader,
  file: number,
  start: number,
): PlacedShard {
  const aligned = arrays.every(
    ({ dtype, byteOffset }) => byteOffset % dtypeFacts(dtype).byteSize === 0,
  );
  if (aligned) {
    const layouts = new Map(
      arrays.map(({ name, dtype, shape, byteOffset }) => [
        name,
        contiguousLayout(dtype, shape, start + byteOffset),
      ]),
    );
    const move = {
      file,
      fileByteOffset: dataByteOffset,
      memoryByteOffset: start,
      byteLength: dataByteLength,
    };
    return { layouts, moves: [move], byteLength: start + dataByteLength };
  }
  const { layouts, byteLength } = packBundle(
    new Map(arrays.map((array) => [array.name, array])),
    start,
  );
  const moves = arrays.map((array) => ({
    file,
    fileByteOffset: dataByteOffset + array.byteOffset,
    memoryByteOffset: layouts.get(array.name)?.byteOffset ?? start,
    byteLength: array.byteLength,
  }));
  return { layouts, moves, byteLength };
}

function commonMetadata(all: readonly ReadonlyMap<string, string>[]): Record<string, string> {
  const texts = new Map<string, string | undefined>();
  for (const metadata of all) {
    for (const [key, text] of metadata)
      texts.set(key, texts.has(key) && texts.get(key) !== text ? undefined : text);
  }
  return Object.fromEntries(
    [...texts].filter((pair): pair is [string, string] => pair[1] !== undefined),
  );
}
