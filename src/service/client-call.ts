/** One request of a client on one link: what it is made of, what has become of it, and whether anybody still waits for it. */
import type { DType } from "../array/dtype.js";
import type { Meta } from "../channel/message-meta.js";
import type { ServiceMessage, SlotToFill } from "./service-message.js";

/** Fills a request. Called anew for each worker that the request goes to. The signal is aborted where nobody waits for it any more. */
export type FillRequest<D extends DType = DType> = (slot: SlotToFill<D>, signal: AbortSignal) => void | Promise<void>;

export interface Ask<D extends DType = DType> {
  /** Undefined for a request that has no data, and meta alone. */
  readonly fill: FillRequest<D> | undefined;
  readonly meta: Meta | undefined;
  readonly shape: readonly number[] | undefined;
  readonly byteLength: number | undefined;
}

export type Outcome =
  | { readonly kind: "reply"; readonly reply: ServiceMessage }
  | { readonly kind: "failed"; readonly report: unknown }
  /** It was not begun, and another worker may take it. */
  | { readonly kind: "elsewhere" }
  /** The worker gave it up since its deadline had passed. */
  | { readonly kind: "dropped" }
  /** The worker was gone before it had answered. */
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

  /** Aborted where nobody waits for it any more. */
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
