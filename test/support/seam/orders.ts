/** The orders of a test to a hub or keeper with a seam, in lines of JSON. */
import type { SeamAction } from "../matrix/fault-seam.js";

export type SeamRole = "hub" | "keeper";

export type SeamOrder =
  | { readonly do: "arm"; readonly action: SeamAction; readonly at: number }
  | { readonly do: "disarm" }
  | { readonly do: "cut" };

/** The socket of the seam in this process. */
export function seamSocket(folder: string, pid: number | string): string {
  return `${folder}/seam-${pid}.sock`;
}

/** The file with the order for the next process of this role. */
export function seamFile(folder: string, role: SeamRole): string {
  return `${folder}/seam-next-${role}.json`;
}
