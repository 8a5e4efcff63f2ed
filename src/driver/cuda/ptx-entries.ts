/**
 * Finds the kernels that a PTX text declares, and the sizes of their parameters. It is no full PTX
 * parser: the driver judges the text.
 * https://docs.nvidia.com/cuda/parallel-thread-execution/#kernel-and-function-directives-entry
 */
import { roundUp } from "../../base/bytes.js";
import type { KernelParameter } from "../kernel-calls.js";

/** By name. The parameters are undefined if one has an unknown form of declaration. */
export type KernelTable = ReadonlyMap<string, readonly KernelParameter[] | undefined>;

/**
 * Comments and strings, whose content is ignored. An unfinished one matches to the end, so that the
 * search stays linear.
 */
const ASIDE = /"(?:[^"\\\n]|\\.)*"?|\/\*[\s\S]*?(?:\*\/|$)|\/\/[^\n]*/g;
const ENTRY = /\.entry\s+([A-Za-z_$%][\w$%]*)\s*(?:\(([^(){}]*)\))?/g;
/** `.param .u64 .ptr .global .align 4 name` or `.param .align 8 .b8 name[24]`. */
const PARAMETER =
  /^\.param\s+(?:\.align\s+(\d+)\s+)?\.([bsuf](?:8|16|32|64|128)|f16x2)(?:\s+\.ptr(?:\s+\.[a-z]+)?(?:\s+\.align\s+\d+)?)?\s+[A-Za-z_$%][\w$%]*\s*(?:\[\s*(\d+)\s*\])?$/;

export function ptxEntries(text: string): KernelTable {
  const entries = new Map<string, readonly KernelParameter[] | undefined>();
  for (const [, name = "", list = ""] of text.replace(ASIDE, " ").matchAll(ENTRY)) {
    entries.set(name, parametersOf(list));
  }
  return entries;
}

function parametersOf(list: string): KernelParameter[] | undefined {
  const parameters: KernelParameter[] = [];
  let end = 0;
  for (const declaration of list.trim() === "" ? [] : list.split(",")) {
    const match = PARAMETER.exec(declaration.trim());
    if (match === null) return undefined;
    const [, align, type = "", count] = match;
    const elementBytes = type === "f16x2" ? 4 : Number(type.slice(1)) / 8;
    const byteOffset = roundUp(end, Math.max(elementBytes, Number(align ?? 1)));
    const byteLength = elementBytes * Number(count ?? 1);
    parameters.push({ byteOffset, byteLength });
    end = byteOffset + byteLength;
  }
  return parameters;
}
