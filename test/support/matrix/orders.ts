/** The messages between the test and the processes of the matrix, over Node's IPC channel. */
import type { SeamAction } from "./fault-seam.js";

export type Order =
  | { readonly do: "arm"; readonly action: SeamAction; readonly at: number }
  | { readonly do: "disarm" }
  | { readonly do: "cut" }
  | { readonly do: "create"; readonly name: string; readonly elements?: number }
  | { readonly do: "publish" | "close" | "open"; readonly name: string }
  | { readonly do: "read"; readonly name: string; readonly stamp: number }
  | { readonly do: "write"; readonly name: string; readonly stamp: number }
  /** A word with the hub. */
  | { readonly do: "ask" }
  /** Everything that is open is closed; what this process holds then. */
  | { readonly do: "leave" };

/** The result of an order that failed is its error. */
export interface Outcome {
  readonly code: string | null;
  readonly message?: string;
  readonly value?: unknown;
}

export type OrderMessage = Order & { readonly id: number; readonly timeoutMs: number };
export type OutcomeMessage = Outcome & { readonly id: number };

/** What a process says first: that it is there, or why not. */
export const READY_ID = 0;
