/**
 * A client's account of one link: whether one more request can go. Counted so that neither side ever waits for a slot because of the
 * other: each request that was not answered has a slot for its cancellation and one for its reply put by. Pure.
 *
 *   requests  | answered | r1 ... cancel ... r2 |   put by: a cancellation of each   |
 *                        ^ the oldest that was not answered: the worker gives slots back in order, so that all from here on are taken
 *   replies   | given back | held ... given back |  put by: a reply to each          |
 *                          ^ the oldest that the user holds
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

  /** @param depth requests that are under way at a time; either channel has twice as many slots */
  constructor(depth: number) {
    this.#depth = depth;
    this.#slots = slotsOf(depth);
  }

  /** Requests that were not answered. */
  get underWay(): number {
    return this.#requests.size;
  }

  /** Replies that were not given back. */
  get held(): number {
    return this.#held.size;
  }

  get canSend(): boolean {
    if (this.#requests.size >= this.#depth) return false;
    const requests = this.#requestSpan() + 1 + this.#uncancelled + 1;
    const replies = this.#replySpan() + this.#requests.size + 1;
    return requests <= this.#slots && replies <= this.#slots;
  }

  sent(number: number): void {
    this.#requests.set(number, { position: this.#nextRequest, cancelled: false });
    this.#nextRequest += 1;
    this.#uncancelled += 1;
  }

  /** A slot that was given back while a stream might still write to it counts as a message. */
  passedOver(): void {
    this.#nextRequest += 1;
  }

  /** Whether there is a cancellation to be sent now; it counts from here on. */
  cancel(number: number): boolean {
    const sent = this.#requests.get(number);
    if (sent === undefined || sent.cancelled) return false;
    sent.cancelled = true;
    this.#uncancelled -= 1;
    this.#nextRequest += 1;
    return true;
  }

  /** @returns where the reply lies, until `givenBack`; undefined where no such request is under way */
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

  #requestSpan(): number {
    // WHY the first: a Map keeps the order in which they were sent.
    for (const { position } of this.#requests.values()) return this.#nextRequest - position;
    return 0;
  }

  #replySpan(): number {
    for (const position of this.#held) return this.#nextReply - position;
    return 0;
  }
}

/** Of either channel of a link. */
export function slotsOf(depth: number): number {
  return 2 * depth;
}
