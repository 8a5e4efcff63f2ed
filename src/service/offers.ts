/** Keeps one offer of a worker out, as long as it has room for another client. */
import type { DType } from "../array/dtype.js";
import { hasCode } from "../base/errors.js";
import { GrowingPause } from "../base/growing-pause.js";
import type { ChannelReader } from "../channel/channel-reader.js";
import type { ChannelWriter } from "../channel/channel-writer.js";
import type { Offer } from "./offer.js";
import { pauseFor } from "./pause-for.js";

export interface OfferEvents<Q extends DType, R extends DType> {
  /** Makes the next one, under a name of its own. */
  make(): Promise<Offer<Q, R>>;
  /** Takes over the channels of a link. */
  onTaken(requests: ChannelReader<Q>, replies: ChannelWriter<R>): void;
  hasRoom(): boolean;
  /** Whether no hub is looked for any more. Those who are linked go on. */
  hasHub(): boolean;
}

export class Offers<Q extends DType = DType, R extends DType = DType> {
  readonly #events: OfferEvents<Q, R>;
  readonly #ended = new AbortController();
  readonly #done: Promise<void>;
  #onRoom: () => void = () => {};

  /** Takes over the first one. */
  constructor(first: Offer<Q, R>, events: OfferEvents<Q, R>) {
    this.#events = events;
    this.#done = this.#run(first);
  }

  /** There may be room for another client. */
  roomCame(): void {
    this.#onRoom();
  }

  /** Takes back what is out; nobody comes any more once this resolves. */
  async close(): Promise<void> {
    this.#ended.abort();
    this.#onRoom();
    await this.#done;
  }

  async #run(first: Offer<Q, R>): Promise<void> {
    const { signal } = this.#ended;
    const pause = new GrowingPause();
    let offer: Offer<Q, R> | undefined = first;
    while (!signal.aborted) {
      try {
        offer ??= await this.#events.make();
        const requests = await offer.taken(signal);
        this.#events.onTaken(requests, offer.replies);
        pause.reset();
        offer = undefined;
        await this.#room();
      } catch (error) {
        offer?.close();
        offer = undefined;
        if (hasCode(error, "CLOSED") || !this.#events.hasHub()) return;
        // WHY after a pause: a hub that is full, or a client that makes nonsense again and again.
        await pauseFor(pause.nextMs(), signal);
      }
    }
    offer?.close();
  }

  async #room(): Promise<void> {
    while (!this.#events.hasRoom() && !this.#ended.signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#onRoom = resolve;
      });
    }
  }
}
