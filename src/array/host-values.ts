/**
 * The JavaScript values of each dtype and their bytes, without a copy if the types allow it. It
 * supports only little-endian hosts, as all hosts with CUDA are.
 */
import { shownValue } from "../base/shown-value.js";
import { checkedHostArray } from "./checked-values.js";
import { type DType, dtypeFacts } from "./dtype.js";
import { encodeFromFloat32, isSmallFloat, type SmallFloat } from "./small-floats.js";

/**
 * What a constructor makes, over an ArrayBuffer and not a SharedArrayBuffer. Since TypeScript 5.7
 * that is `Uint8Array<ArrayBuffer>`, which `Response` and `Blob` take. Before, it is `Uint8Array`.
 */
type Owned<T extends { of(...items: never[]): unknown }> = ReturnType<T["of"]>;

/**
 * The typed array of each dtype. Complex values are pairs (real, imaginary). Small floats are raw
 * bits.
 */
export interface HostArrays {
  bool: Owned<typeof Uint8Array>;
  uint8: Owned<typeof Uint8Array>;
  uint16: Owned<typeof Uint16Array>;
  uint32: Owned<typeof Uint32Array>;
  uint64: Owned<typeof BigUint64Array>;
  int8: Owned<typeof Int8Array>;
  int16: Owned<typeof Int16Array>;
  int32: Owned<typeof Int32Array>;
  int64: Owned<typeof BigInt64Array>;
  float8_e4m3fn: Owned<typeof Uint8Array>;
  float8_e5m2: Owned<typeof Uint8Array>;
  float16: Owned<typeof Uint16Array>;
  bfloat16: Owned<typeof Uint16Array>;
  float32: Owned<typeof Float32Array>;
  float64: Owned<typeof Float64Array>;
  complex64: Owned<typeof Float32Array>;
  complex128: Owned<typeof Float64Array>;
}

export type HostArray<D extends DType = DType> = HostArrays[D];

/**
 * Values that can be written to an array: its own typed array, or plain values, which are checked
 * one by one.
 */
export type HostValues<D extends DType = DType> = D extends DType
  ? TakenArrays[HostArrays[D][typeof Symbol.toStringTag]] | PlainValues<D>
  : never;

/** The typed arrays that are taken for each kind, over any buffer. */
interface TakenArrays {
  Uint8Array: Uint8Array | Uint8ClampedArray;
  Uint16Array: Uint16Array;
  Uint32Array: Uint32Array;
  BigUint64Array: BigUint64Array;
  Int8Array: Int8Array;
  Int16Array: Int16Array;
  Int32Array: Int32Array;
  BigInt64Array: BigInt64Array;
  Float32Array: Float32Array;
  Float64Array: Float64Array;
}

type PlainValues<D extends DType> = D extends SmallFloat
  ? Float32Array | readonly number[]
  : D extends "int64" | "uint64"
    ? readonly (number | bigint)[]
    : D extends "bool"
      ? readonly (boolean | number)[]
      : readonly number[];

export interface HostArrayConstructor<A> {
  readonly BYTES_PER_ELEMENT: number;
  readonly name: string;
  new (length: number): A;
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): A;
}

const hostArrayTypes: { readonly [D in DType]: HostArrayConstructor<HostArrays[D]> } = {
  bool: Uint8Array,
  uint8: Uint8Array,
  uint16: Uint16Array,
  uint32: Uint32Array,
  uint64: BigUint64Array,
  int8: Int8Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  float8_e4m3fn: Uint8Array,
  float8_e5m2: Uint8Array,
  float16: Uint16Array,
  bfloat16: Uint16Array,
  float32: Float32Array,
  float64: Float64Array,
  complex64: Float32Array,
  complex128: Float64Array,
};

/** The constructor of the dtype's typed array. */
export function hostArrayType<D extends DType>(dtype: D): HostArrayConstructor<HostArrays[D]> {
  dtypeFacts(dtype);
  return hostArrayTypes[dtype];
}

/** Typed array entries per element: 2 for complex dtypes, otherwise 1. */
export function hostEntriesPerElement(dtype: DType): 1 | 2 {
  return dtypeFacts(dtype).kind === "complex" ? 2 : 1;
}

/**
 * The bytes of values of a dtype. The dtype's own typed array is viewed without a copy, so later
 * changes show in the bytes. A Float32Array or `number[]` for a small float is encoded (see
 * `encodeFromFloat32`). Other plain arrays are checked value by value. Complex values are pairs:
 * `[real, imaginary, real, imaginary]`.
 * @param elementCount the exact number of elements
 * @throws TypeError for values of another type; RangeError for another count or a value outside the
 * dtype
 */
export function toHostBytes<D extends DType>(
  dtype: D,
  values: HostValues<D>,
  elementCount: number,
): Uint8Array {
  const arrayType = hostArrayType(dtype);
  const given: unknown = values;
  if (Array.isArray(given)) {
    checkCount(dtype, given.length, elementCount);
    return bytesOf(checkedHostArray(dtype, given));
  }
  if (!isTypedArray(given)) throw wrongType(dtype, arrayType.name, given);
  const name = takenName(given);
  const toEncode = isSmallFloat(dtype) && name === "Float32Array";
  // WHY the type before the count: a Buffer of floats has another count, but its type is the
  // mistake.
  if (name !== arrayType.name && !toEncode) throw wrongType(dtype, arrayType.name, given);
  checkCount(dtype, given.length, elementCount);
  if (toEncode) return bytesOf(encodeFromFloat32(dtype, given as TypedArray & Float32Array));
  if (dtype === "bool") checkBools(given as TypedArray & Uint8Array);
  return bytesOf(given);
}

/**
 * The bytes of elements as the dtype's typed array. Copies only if the bytes are not aligned for
 * it.
 * @throws RangeError if the bytes are not whole elements
 */
export function fromHostBytes<D extends DType>(dtype: D, bytes: Uint8Array): HostArrays[D] {
  const arrayType = hostArrayType(dtype);
  const { byteSize } = dtypeFacts(dtype);
  if (bytes.byteLength % byteSize !== 0) {
    throw new RangeError(
      `Cannot view as ${dtype}: ${bytes.byteLength} bytes are not whole elements of ${byteSize}`,
    );
  }
  const entryBytes = arrayType.BYTES_PER_ELEMENT;
  const aligned = bytes.byteOffset % entryBytes === 0 ? bytes : Uint8Array.from(bytes);
  return new arrayType(aligned.buffer, aligned.byteOffset, aligned.byteLength / entryBytes);
}

/** The name of a typed array's type, such as `Float32Array`. Undefined for other values. */
function typedArrayNameOf(value: unknown): string | undefined {
  return isTypedArray(value) ? typedArrayName(value) : undefined;
}

/** The default dtype of each kind of typed array. */
interface InferredDTypes {
  Uint8Array: "uint8";
  Uint8ClampedArray: "uint8";
  Uint16Array: "uint16";
  Uint32Array: "uint32";
  BigUint64Array: "uint64";
  Int8Array: "int8";
  Int16Array: "int16";
  Int32Array: "int32";
  BigInt64Array: "int64";
  Float32Array: "float32";
  Float64Array: "float64";
}

const inferredDTypes: Readonly<InferredDTypes> = {
  Uint8Array: "uint8",
  Uint8ClampedArray: "uint8",
  Uint16Array: "uint16",
  Uint32Array: "uint32",
  BigUint64Array: "uint64",
  Int8Array: "int8",
  Int16Array: "int16",
  Int32Array: "int32",
  BigInt64Array: "int64",
  Float32Array: "float32",
  Float64Array: "float64",
};

const byName: ReadonlyMap<string, DType> = new Map(Object.entries(inferredDTypes));

/** Typed arrays whose dtype need not be given. */
export type SelfDescribingValues = TakenArrays[HostArray[typeof Symbol.toStringTag]];

/** The dtype of a typed array's type: `DTypeOf<Float32Array>` is `"float32"`. */
export type DTypeOf<V extends SelfDescribingValues> = InferredDTypes[V[typeof Symbol.toStringTag]];

/** Undefined for plain arrays and all other values without a default dtype. */
export function dtypeOfValues(values: unknown): DType | undefined {
  const name = typedArrayNameOf(values);
  return name === undefined ? undefined : byName.get(name);
}

function checkCount(dtype: DType, entries: number, elementCount: number): void {
  const wanted = elementCount * hostEntriesPerElement(dtype);
  if (entries === wanted) return;
  const pairs = wanted === elementCount ? "" : ` (two for each of ${elementCount} elements)`;
  throw new RangeError(
    `Cannot take values as ${dtype}: found ${entries} values, wanted ${wanted}${pairs}`,
  );
}

function checkBools(values: Uint8Array): void {
  for (let i = 0; i < values.length; i += 1) {
    if ((values[i] as number) > 1)
      throw new RangeError(`Cannot take ${values[i]} as bool: value ${i} must be 0 or 1`);
  }
}

/** Bytes, or the pixels of a canvas. */
export type Bytes = Uint8Array | Uint8ClampedArray;

/** The bytes of a view, without a copy. */
export function bytesOf(view: ArrayBufferView): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

interface TypedArray extends ArrayBufferView {
  readonly length: number;
  readonly [Symbol.toStringTag]: string;
}

function isTypedArray(value: unknown): value is TypedArray {
  return ArrayBuffer.isView(value) && "length" in value;
}

/**
 * WHY not instanceof: it is false for arrays of another realm, such as those of test runners and vm
 * contexts.
 */
function typedArrayName(view: TypedArray): string {
  return view[Symbol.toStringTag];
}

/** The pixels of a canvas are taken as bytes. */
function takenName(view: TypedArray): string {
  const name = typedArrayName(view);
  return name === "Uint8ClampedArray" ? "Uint8Array" : name;
}

function wrongType(dtype: DType, wanted: string, given: unknown): TypeError {
  const found = isTypedArray(given) ? typedArrayName(given) : shownValue(given);
  const float32 = isSmallFloat(dtype) ? ", Float32Array (to be encoded)" : "";
  return new TypeError(
    `Cannot take values as ${dtype}: found ${found}, wanted ${wanted}${float32} or a plain array`,
  );
}
