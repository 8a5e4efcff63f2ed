/** What a test says to a hub or keeper with a seam, in lines of JSON. */
import type { SeamAction } from "../matrix/fault-seam.js";

export type SeamRole = "hub" | "keeper";

export type SeamOrder =
  | { readonly do: "arm"; readonly action: SeamAction; readonly at: number }
  | { readonly do: "disarm" }
  | { readonly do: "cut" };

/** Where the process of this number listens. */
export function seamSocket(folder: string, pid: number | string): string {
  return `${folder}/seam-${pid}.sock`;
}

/** What the next process of this role is to do from its start. */
export function seamFile(folder: string, role: SeamRole): string {
  return `${folder}/seam-next-${role}.json`;
}
