/**
 * One read of a channel that the other side of a link lends: its messages as they come, in their
 * order, and how many may still come.
 */
import { CudaIpcError } from "../../base/errors.js";
import type { CarriedMessage } from "../../wire/carried-frames.js";
import type { CallResult } from "../../wire/link-messages.js";

/** A message, with its bytes if they came in the same frame. */
export interface ArrivedMessage {
  readonly message: CarriedMessage;
  readonly bytes: Uint8Array;
}

type Ended = CallResult<"read"> | { readonly failure: unknown };

export class ChannelRead {
  readonly #link: { ask(count: number): void; end(): void };
  readonly #arrived: ArrivedMessage[] = [];
  /** Messages that the other side may still send. */
  #asked: number;
  #ended: Ended | undefined;
  #wake = () => {};

  /**
   * @param asked messages that were asked for already
   * @param link `ask` asks for further ones; `end` is called once
   */
  constructor(asked: number, link: { ask(count: number): void; end(): void }) {
    this.#asked = asked;
    this.#link = link;
  }

  /** The next message, or how the channel has ended. @throws what ended the read */
  async next(): Promise<ArrivedMessage | CallResult<"read">> {
    for (;;) {
      const arrived = this.#arrived.shift();
      if (arrived !== undefined) return arrived;
      if (this.#ended !== undefined) {
        if ("failure" in this.#ended) throw this.#ended.failure;
        return this.#ended;
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** Asks for further messages. Without effect after the end. */
  more(count: number): void {
    if (this.#ended !== undefined) return;
    this.#asked += count;
    this.#link.ask(count);
  }

  /** A message has come. @throws INVALID_MESSAGE if it was not asked for */
  arrive(arrived: ArrivedMessage): void {
    if (this.#asked === 0) {
      const found = "it was not asked for";
      throw new CudaIpcError("INVALID_MESSAGE", `Cannot take a message of a channel: ${found}`);
    }
    this.#asked -= 1;
    this.#arrived.push(arrived);
    this.#wake();
  }

  /** Messages that have come are still returned by `next`. */
  end(ended: Ended): void {
    if (this.#ended !== undefined) return;
    this.#ended = ended;
    this.#link.end();
    this.#wake();
  }
}
