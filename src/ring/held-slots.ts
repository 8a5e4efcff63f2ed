/**
 * The slots that a reader holds, and how they are given back: by the CPU in any order, by streams in the order of their positions, since
 * one timeline tells the writer of all.
 */
import { CLAIMS } from "./channel-layout.js";
import type { MessageHeader } from "./control-words.js";
import type { PageWords } from "./page-words.js";

/** What gives a slot back once the GPU has got there. */
export interface ReleaseOrder {
  /** Enqueues: from there on the reader's timeline is at this value. */
  signal(value: number): void;
}

/** A message that was taken and not given back. */
export interface TakenMessage extends MessageHeader {
  readonly position: number;
  readonly slot: number;
  /** Messages that were lost to this reader between the one before, or its beginning, and this one. */
  readonly missed: number;
}

/** What is known of it beside its header. */
type Held = Pick<HeldMessage, "position" | "slot" | "missed" | "claim">;

/** The same object, so that a message makes one alone. */
interface HeldMessage extends TakenMessage {
  /** Which claim word stands for it; -1 where the writer waits for this reader. */
  readonly claim: number;
  released: boolean;
  order: ReleaseOrder | undefined;
}

export class HeldSlots {
  readonly #page: PageWords;
  /** In the order of their positions. */
  #held: HeldMessage[] = [];

  constructor(page: PageWords) {
    this.#page = page;
  }

  get size(): number {
    return this.#held.length;
  }

  /** The first position that is not given back; undefined where all are. */
  get oldest(): number | undefined {
    return this.#held[0]?.position;
  }

  add(header: MessageHeader, { position, slot, missed, claim }: Held): TakenMessage {
    // WHY not spread: that takes a microsecond, many times what all the rest takes.
    const { sequence, timestampMs, byteLength, readyAt, epoch, flags, metaBytes } = header;
    const held: HeldMessage = {
      position,
      slot,
      missed,
      sequence,
      timestampMs,
      byteLength,
      readyAt,
      epoch,
      flags,
      metaBytes,
      claim,
      released: false,
      order: undefined,
    };
    this.#held.push(held);
    return held;
  }

  /** False where it is not held. */
  release(taken: TakenMessage, order: ReleaseOrder | undefined): boolean {
    const first = this.#held[0];
    // WHY the first apart: most slots are given back before the next is taken.
    const held = first === taken ? first : this.#held.find((held) => held === taken);
    if (held === undefined || held.released) return false;
    held.released = true;
    held.order = order;
    if (order === undefined && held.claim >= 0) this.#page.setClaim(held.claim, 0);
    this.giveBack();
    return true;
  }

  /** A claim word that stands for nothing; -1 where there is none. */
  freeClaim(): number {
    for (let index = 0; index < CLAIMS; index += 1) {
      const claim = this.#page.claim(index);
      if (claim === 0 || (claim < 0 && this.#page.done >= -claim)) return index;
    }
    return -1;
  }

  signalOwed(): void {
    for (const { position, released, order } of this.#held) if (released) order?.signal(position + 1);
  }

  clear(): void {
    this.#held = [];
    for (let claim = 0; claim < CLAIMS; claim += 1) this.#page.setClaim(claim, 0);
  }

  /** What was released, up to the first that was not. Where a stream refuses, it is the first to be tried the next time. */
  giveBack(): void {
    for (let next = this.#held[0]; next?.released; next = this.#held[0]) {
      if (next.order !== undefined) this.#giveByStream(next, next.order);
      // WHY one by one: where a stream refuses, those before it are not given back twice. WHY pop: shift has the next push make a new list.
      if (this.#held.length === 1) this.#held.pop();
      else this.#held.shift();
    }
  }

  #giveByStream({ position, claim }: HeldMessage, order: ReleaseOrder): void {
    const value = position + 1;
    order.signal(value);
    if (claim >= 0) this.#page.setClaim(claim, -value);
    else this.#page.setGpuReleased(value);
  }
}
