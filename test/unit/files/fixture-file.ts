/**
 * Finds the golden files that numpy, safetensors and ml_dtypes wrote. See
 * test/fixtures/make_fixtures.py.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { DType } from "../../../src/array/dtype.js";

export interface ExpectedArray {
  readonly dtype: DType;
  readonly shape: number[];
  /** The elements in C order. */
  readonly hex: string;
}

interface Expected {
  readonly npy: Readonly<Record<string, ExpectedArray & { readonly fortranOrder: boolean }>>;
  readonly safetensors: Readonly<Record<string, Readonly<Record<string, ExpectedArray>>>>;
}

export interface SmallFloatTable {
  readonly patterns: number[];
  readonly decodedBits: number[];
  readonly float32Bits: number[];
  readonly encoded: number[];
}

/** Tests run in the root of the project. */
export function fixturePath(name: string): string {
  return join("test", "fixtures", name);
}

export function expectedArrays(): Expected {
  return JSON.parse(readFileSync(fixturePath("expected.json"), "utf8")) as Expected;
}

export function smallFloatTables(): Readonly<Record<string, SmallFloatTable>> {
  return JSON.parse(readFileSync(fixturePath("small-floats.json"), "utf8")) as Record<
    string,
    SmallFloatTable
  >;
}
