/**
 * Plans how arrays go into a file: its header, and the offset of each array's elements. Arrays that
 * are adjacent in memory and in the file are moved together.
 */
import { dtypeFacts } from "../array/dtype.js";
import { fortranStrides } from "../array/layout.js";
import type { DeviceArray } from "../gpu/arrays/device-array.js";
import type { FileFormat } from "./file-format.js";
import { encodeNpyHeader } from "./npy-header.js";
import { isOpaqueKey, opaqueTypeOf } from "./opaque-dtypes.js";
import { encodeSafetensorsHeader, planSafetensors } from "./safetensors-encoding.js";
import type { SafetensorsArray } from "./safetensors-header.js";

export interface StorePlan {
  readonly header: Uint8Array;
  readonly moves: readonly StoreMove[];
  /** Bytes of the elements, without the header. */
  readonly byteLength: number;
}

export type StoreMove =
  /** Bytes that are in memory as they go into the file. */
  | {
      readonly kind: "range";
      readonly memoryByteOffset: number;
      readonly fileByteOffset: number;
      readonly byteLength: number;
    }
  /** An array whose elements are gathered one by one. */
  | { readonly kind: "elements"; readonly array: DeviceArray; readonly fileByteOffset: number };

/** How one array goes into a file of each format. Safetensors files need its name. */
const arrayPlanners: Readonly<Record<FileFormat, (array: DeviceArray, name: string) => StorePlan>> =
  {
    npy: planNpyStore,
    safetensors: (array, name) => planSafetensorsStore(new Map([[name, array]]), {}),
    raw: planRawStore,
  };

/** @throws UNSUPPORTED_DTYPE for dtypes that the format does not have */
export function planArrayStore(format: FileFormat, name: string, array: DeviceArray): StorePlan {
  return arrayPlanners[format](array, name);
}

/** @throws UNSUPPORTED_DTYPE for dtypes that numpy does not have */
function planNpyStore(array: DeviceArray): StorePlan {
  const inFortranOrder = !array.isContiguous && isFortranContiguous(array);
  const header = encodeNpyHeader(array.dtype, array.shape, { fortranOrder: inFortranOrder });
  // In memory, an array in Fortran order is its transpose in C order.
  const stored = inFortranOrder ? array.transpose() : array;
  return { header, moves: [moveOf(stored, header.byteLength)], byteLength: array.byteLength };
}

function planRawStore(array: DeviceArray): StorePlan {
  return { header: new Uint8Array(0), moves: [moveOf(array, 0)], byteLength: array.byteLength };
}

/**
 * Keeps the given order if it aligns every array in the file, because readers refuse unaligned
 * arrays. Otherwise uses the order of the reference implementation, which aligns all.
 * @throws UNSUPPORTED_DTYPE for complex128
 */
export function planSafetensorsStore(
  arrays: ReadonlyMap<string, DeviceArray>,
  metadata: Readonly<Record<string, string>>,
): StorePlan {
  const given = [...arrays].map(([name, { dtype, shape }]) => ({ name, dtype, shape }));
  const planned = inGivenOrder(arrays) ?? planSafetensors(given).arrays;
  const order = planned.map((array) =>
    array.dtype === "uint8"
      ? { ...array, opaque: opaqueTypeOf(array.name, array.byteLength, metadata) }
      : array,
  );
  const own = Object.entries(metadata).filter(([key]) => !isOpaqueKey(key));
  const header = encodeSafetensorsHeader(order, new Map(own));
  const moves = order.flatMap(({ name, byteOffset }) => {
    const array = arrays.get(name);
    return array === undefined ? [] : [moveOf(array, header.byteLength + byteOffset)];
  });
  return {
    header,
    moves: joined(moves),
    byteLength: order.reduce((sum, array) => sum + array.byteLength, 0),
  };
}

function inGivenOrder(arrays: ReadonlyMap<string, DeviceArray>): SafetensorsArray[] | undefined {
  const planned: SafetensorsArray[] = [];
  let byteOffset = 0;
  for (const [name, { dtype, shape, byteLength }] of arrays) {
    if (byteOffset % dtypeFacts(dtype).byteSize !== 0) return undefined;
    planned.push({ name, dtype, shape, byteOffset, byteLength });
    byteOffset += byteLength;
  }
  return planned;
}

function isFortranContiguous({ shape, strides }: DeviceArray): boolean {
  const wanted = fortranStrides(shape);
  return shape.every((size, axis) => size <= 1 || strides[axis] === wanted[axis]);
}

function moveOf(array: DeviceArray, fileByteOffset: number): StoreMove {
  if (!array.isContiguous) return { kind: "elements", array, fileByteOffset };
  return {
    kind: "range",
    memoryByteOffset: array.layout.byteOffset,
    fileByteOffset,
    byteLength: array.byteLength,
  };
}

function joined(moves: readonly StoreMove[]): StoreMove[] {
  const result: StoreMove[] = [];
  for (const move of moves) {
    const last = result.at(-1);
    if (last?.kind === "range" && move.kind === "range" && follows(last, move)) {
      result[result.length - 1] = { ...last, byteLength: last.byteLength + move.byteLength };
    } else if (move.kind === "elements" || move.byteLength > 0) result.push(move);
  }
  return result;
}

type RangeMove = Extract<StoreMove, { kind: "range" }>;

function follows(last: RangeMove, next: RangeMove): boolean {
  const inMemory = last.memoryByteOffset + last.byteLength === next.memoryByteOffset;
  return inMemory && last.fileByteOffset + last.byteLength === next.fileByteOffset;
}
