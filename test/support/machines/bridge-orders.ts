/** The order of a test to a bridge with `inside-bridge.ts`, as files in a folder. */

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
