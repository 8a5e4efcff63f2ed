/** The messages between the test and the processes of the matrix, over Node's IPC channel. */
import type { SeamAction } from "./fault-seam.js";

export type Order =
  | { readonly do: "arm"; readonly action: SeamAction; readonly at: number }
  | { readonly do: "disarm" }
  | { readonly do: "cut" }
  | {
      readonly do: "create";
      readonly name: string;
      readonly elements?: number;
      readonly lifetime?: "held" | "pinned";
      readonly replace?: boolean;
    }
  | { readonly do: "publish" | "close" | "open"; readonly name: string }
  | { readonly do: "read"; readonly name: string; readonly stamp: number }
  | { readonly do: "write"; readonly name: string; readonly stamp: number }
  /** Ask the hub for anything. */
  | { readonly do: "ask" }
  /** Close everything. The value is what this process still holds. */
  | { readonly do: "leave" };

/** The outcome of an order. If it failed, `code` is the code of its error. */
export interface Outcome {
  readonly code: string | null;
  readonly message?: string;
  readonly value?: unknown;
}

export type OrderMessage = Order & { readonly id: number; readonly timeoutMs: number };
export type OutcomeMessage = Outcome & { readonly id: number };

/** The id of a process's first message: it is ready, or says why not. */
export const READY_ID = 0;
