/**
 * One request of a client on one link: its content, its outcome, and whether the caller still
 * waits.
 */
import type { DType } from "../array/dtype.js";
import { CudaIpcError } from "../base/errors.js";
import type { Meta } from "../channel/message-meta.js";
import type { ReceivedEnvelope } from "./envelope.js";
import type { ServiceMessage, SlotToFill } from "./service-message.js";

/**
 * Writes a request into its slot. It runs again for each worker that the request is sent to. The
 * signal aborts when the caller no longer waits.
 */
export type FillRequest<D extends DType = DType> = (
  slot: SlotToFill<D>,
  signal: AbortSignal,
) => void | Promise<void>;

export interface Ask<D extends DType = DType> {
  /** Undefined for a request without data, which has only meta. */
  readonly fill: FillRequest<D> | undefined;
  readonly meta: Meta | undefined;
  readonly shape: readonly number[] | undefined;
  readonly byteLength: number | undefined;
}

export type Outcome =
  | { readonly kind: "reply"; readonly reply: ServiceMessage }
  | { readonly kind: "failed"; readonly report: unknown }
  /** The worker did not begin it. Another worker may take it. */
  | { readonly kind: "elsewhere" }
  /** The worker dropped it because its deadline had passed. */
  | { readonly kind: "dropped" }
  /** The worker ended before it answered. */
  | { readonly kind: "gone"; readonly cause: unknown };

export class Call {
  readonly number: number;
  readonly ask: Ask;
  readonly outcome: Promise<Outcome>;
  readonly #abort = new AbortController();
  #resolve: (outcome: Outcome) => void = () => {};
  #reject: (error: unknown) => void = () => {};

  constructor(number: number, ask: Ask) {
    this.number = number;
    this.ask = ask;
    this.outcome = new Promise<Outcome>((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  /** Aborted when the caller no longer waits. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get isGivenUp(): boolean {
    return this.signal.aborted;
  }

  giveUp(): void {
    this.#abort.abort();
  }

  settle(outcome: Outcome): void {
    this.#resolve(outcome);
  }

  fail(error: unknown): void {
    this.#reject(error);
  }
}

export function reportOf(message: ServiceMessage): unknown {
  try {
    return message.json;
  } catch {
    // The request failed, even if the report cannot be read.
    return undefined;
  }
}

/** @throws CHANNEL_CORRUPT */
export function outcomeOf(label: string, kind: ReceivedEnvelope["kind"], report: unknown): Outcome {
  if (kind === "failed") return { kind, report };
  if (kind === "refused") return { kind: "elsewhere" };
  if (kind === "dropped" || kind === "reply") return { kind: "dropped" };
  const cause = new CudaIpcError(
    "PEER_GONE",
    `Cannot wait for worker "${label}": it was closed before it finished`,
  );
  if (kind === "abandoned") return { kind: "gone", cause };
  throw new CudaIpcError(
    "CHANNEL_CORRUPT",
    `Cannot accept a reply of worker "${label}": its kind is "${kind}"`,
  );
}
