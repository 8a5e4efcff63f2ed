/** The order of a test to a bridge with `inside-bridge.ts`, as files in a folder. */
import { unlinkSync } from "node:fs";

export interface BridgeOrder {
  readonly signal: "SIGKILL" | "SIGSTOP";
  /** The number of the step, from 1, counted since the order. */
  readonly at: number;
}

/** As it is in the file. Each order has another number. */
export type NumberedOrder = BridgeOrder & { readonly number: number };

export function orderFile(folder: string): string {
  return `${folder}/bridge-order.json`;
}

/** Has the name of the step once the bridge has reached it. */
export function reachedFile(folder: string): string {
  return `${folder}/bridge-reached`;
}

/** While it is there, the bridge sends only the first pieces of arrays. Each hold has a number. */
export function holdFile(folder: string): string {
  return `${folder}/bridge-holds`;
}

/** Removes a file. @returns false if it was not there: of two processes, one removes it */
export function removed(path: string): boolean {
  try {
    unlinkSync(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}
