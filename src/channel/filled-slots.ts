/** What a writer's streams have still to do to its slots: its timeline says what is done, and here is what it must reach for each slot. */
import type { Stream } from "../gpu/stream.js";
import type { OrderedTimeline } from "./ordered-timeline.js";

export class FilledSlots {
  readonly #ready: OrderedTimeline;
  readonly #slots: number;
  /** Only where streams were used. */
  #filledAt: Float64Array | undefined;

  constructor(ready: OrderedTimeline, slots: number) {
    this.#ready = ready;
    this.#slots = slots;
  }

  /** Whether streams were used at all. */
  get any(): boolean {
    return this.#filledAt !== undefined;
  }

  /** Enqueues: the timeline is at this value once the stream has done with the slot. */
  byStream(slot: number, stream: Stream, value: number): number {
    this.#ready.signal(stream, value);
    this.#filledAt ??= new Float64Array(this.#slots);
    this.#filledAt[slot] = value;
    return value;
  }

  /** The CPU has filled it, after all streams. */
  byCpu(slot: number): void {
    if (this.#filledAt !== undefined) this.#filledAt[slot] = 0;
  }

  /** Has the stream wait for those that filled the slot before; false where the CPU would have to. */
  orderAfter(slot: number, stream: Stream | undefined): boolean {
    const filledAt = this.#filledAt?.[slot] ?? 0;
    if (filledAt === 0) return true;
    if (stream === undefined) return this.#ready.timeline.reached(filledAt);
    this.#ready.waitOn(stream, filledAt);
    return true;
  }
}
