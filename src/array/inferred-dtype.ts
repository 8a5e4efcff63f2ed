/** The dtype that a typed array tells by its own type. */
import type { DType } from "./dtype.js";
import { typedArrayNameOf } from "./host-values.js";

/** The dtypes of typed arrays that can mean nothing else, unless the caller says so. */
interface InferredDTypes {
  Uint8Array: "uint8";
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
export type SelfDescribingValues =
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Float32Array
  | Float64Array;

/** The dtype of a typed array's type: `DTypeOf<Float32Array>` is `"float32"`. */
export type DTypeOf<V extends SelfDescribingValues> = InferredDTypes[V[typeof Symbol.toStringTag]];

/** Undefined for plain arrays, and for all else that does not tell its dtype. */
export function dtypeOfValues(values: unknown): DType | undefined {
  const name = typedArrayNameOf(values);
  return name === undefined ? undefined : byName.get(name);
}
