/**
 * A client's accounting of one link: whether it may send another request. Pure. Neither side may
 * ever wait for a slot because of the other. So each open request reserves one slot for its
 * cancellation and one for its reply.
 *
 *   requests  | answered | r1 ... cancel ... r2 |   reserved: one cancellation each   |
 *                        ^ the oldest open request. The worker releases slots in order,
 *                          so every slot from here on is taken
 *   replies   | released | held ... released |      reserved: one reply each          |
 *                        ^ the oldest reply that the user holds
 */

interface Sent {
  readonly position: number;
  cancelled: boolean;
}

export class LinkWindow {
  readonly #slots: number;
  readonly #depth: number;
  readonly #requests = new Map<number, Sent>();
  readonly #held = new Set<number>();
  #nextRequest = 0;
  #nextReply = 0;
  #uncancelled = 0;

  /**
   * @param depth the most requests that are open at a time; each channel has twice as many slots
   */
  constructor(depth: number) {
    this.#depth = depth;
    this.#slots = slotsOf(depth);
  }

  /** Requests without an answer. */
  get underWay(): number {
    return this.#requests.size;
  }

  /** Replies that are not released. */
  get held(): number {
    return this.#held.size;
  }

  get canSend(): boolean {
    return this.#hasSlots && !this.#isHeldUp;
  }

  /** Another request could be sent if no reply was held. */
  get isHeldUp(): boolean {
    return this.#hasSlots && this.#isHeldUp;
  }

  sent(number: number): void {
    this.#requests.set(number, { position: this.#nextRequest, cancelled: false });
    this.#nextRequest += 1;
    this.#uncancelled += 1;
  }

  /** A slot that was returned while a stream may still write to it counts as a message. */
  passedOver(): void {
    this.#nextRequest += 1;
  }

  /** Returns whether a cancellation must be sent now. It counts from here on. */
  cancel(number: number): boolean {
    const sent = this.#requests.get(number);
    if (sent === undefined || sent.cancelled) return false;
    sent.cancelled = true;
    this.#uncancelled -= 1;
    this.#nextRequest += 1;
    return true;
  }

  /** @returns the position of the reply, for `givenBack`; undefined if no such request is open */
  answered(number: number): number | undefined {
    const sent = this.#requests.get(number);
    if (sent === undefined) return undefined;
    this.#requests.delete(number);
    if (!sent.cancelled) this.#uncancelled -= 1;
    const position = this.#nextReply;
    this.#nextReply += 1;
    this.#held.add(position);
    return position;
  }

  givenBack(position: number): void {
    this.#held.delete(position);
  }

  get #hasSlots(): boolean {
    if (this.#requests.size >= this.#depth) return false;
    return this.#requestSpan() + 1 + this.#uncancelled + 1 <= this.#slots;
  }

  get #isHeldUp(): boolean {
    return this.#replySpan() + this.#requests.size + 1 > this.#slots;
  }

  #requestSpan(): number {
    // The first entry is the oldest, because a Map keeps the order of insertion.
    for (const { position } of this.#requests.values()) return this.#nextRequest - position;
    return 0;
  }

  #replySpan(): number {
    for (const position of this.#held) return this.#nextReply - position;
    return 0;
  }
}

/** The slots of either channel of a link. */
export function slotsOf(depth: number): number {
  return 2 * depth;
}
