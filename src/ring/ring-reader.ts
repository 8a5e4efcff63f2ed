/**
 * A reader's side of a ring: takes the next message and gives slots back in any order. Never waits.
 * It checks the writer's words before it uses them.
 */
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { CLAIMS, flags } from "./channel-layout.js";
import { type ControlWords, contradictionOf } from "./control-words.js";
import type { PageWords } from "./page-words.js";
import { attach, type ReadFrom } from "./ring-start.js";
import { type SignalDone, type TakenMessage, TakenSlots, tooManyHeld } from "./taken-slots.js";

export type { ReadFrom, SignalDone, TakenMessage };

export interface RingReaderOptions {
  readonly label: string;
  readonly seat: number;
  readonly lease: number;
  readonly from: ReadFrom;
  readonly lossy: boolean;
  /** Wakes the writer. */
  readonly ring: () => void;
}

export class RingReader {
  readonly lossy: boolean;
  /** The last `tryTake` gave up, because the writer had moved on at each look. */
  isOutrun = false;
  /** The messages that it has taken and not given back. */
  readonly held: Pick<TakenSlots, "since" | "unreleased">;
  readonly #label: string;
  readonly #control: ControlWords;
  readonly #page: PageWords;
  readonly #seat: number;
  readonly #lease: number;
  readonly #slots: number;
  readonly #taken: TakenSlots;
  #next: number;
  #slot: number;
  /** The sequence number of the next message if none is lost; undefined if it is not known. */
  #sequence: number | undefined;
  /** Messages that were lost since the last one that was taken. */
  #gap = 0;
  #received = 0;
  #missed = 0;
  readonly #ring: () => void;
  /** The writer's sleep count at the last ring of its bell. */
  #rung = 0;

  /** Attaches to a page that the hub has prepared for this lease. */
  constructor(control: ControlWords, page: PageWords, options: RingReaderOptions) {
    this.#label = options.label;
    this.#control = control;
    this.#page = page;
    this.#taken = new TakenSlots(page);
    this.held = this.#taken;
    this.#seat = options.seat;
    this.#lease = options.lease;
    this.#ring = options.ring;
    this.#slots = control.facts.slots;
    this.lossy = options.lossy || control.facts.whenFull === "drop-oldest";
    this.#next = control.published;
    this.#next = this.#attach(options.from);
    this.#slot = this.#next % this.#slots;
  }

  /** The position that is taken next. */
  get position(): number {
    return this.#next;
  }

  get received(): number {
    return this.#received;
  }

  /** Messages that the writer overwrote before they were taken, or that died with their writer. */
  get missed(): number {
    return this.#missed;
  }

  get heldCount(): number {
    return this.#taken.size;
  }

  /** A lossy reader can hold at most `CLAIMS` slots. */
  get mayHoldMore(): boolean {
    return !this.lossy || this.#taken.freeClaim() >= 0;
  }

  /** It holds all slots, so no message can come until it gives one back. */
  get holdsAll(): boolean {
    if (this.lossy) return this.#taken.unreleased >= this.#slots;
    return this.#next - (this.#taken.oldest ?? this.#next) >= this.#slots;
  }

  /** Streams hold as many slots as a lossy reader may hold. They will give them back. */
  get isHeldUp(): boolean {
    return !this.mayHoldMore && this.heldCount < CLAIMS;
  }

  /**
   * Takes the next message and holds it until `release`. Returns undefined if there is none yet, or
   * if `limits.channelLooksMax` looks found none although the writer moved on: see `isOutrun`.
   * @throws CHANNEL_CORRUPT, READER_EXPELLED; LIMIT_EXCEEDED if it holds too many slots
   */
  tryTake(): TakenMessage | undefined {
    let looks = 0;
    for (; looks < limits.channelLooksMax && this.hasNext; looks += 1) {
      const position = this.#next;
      const claim = this.lossy ? this.#claim(position) : -1;
      if (this.#next !== position) continue;
      if (this.#control.isCommitted(this.#slot, position)) {
        const taken = this.#take(position, claim);
        if (taken !== undefined) return taken;
      } else if (this.#isPassedOver()) this.#passOver(claim);
      else
        this.#refuse(
          `slot ${this.#slot} is of ${this.#control.generation(this.#slot)}, ` +
            `wanted ${position + 1}`,
        );
    }
    this.checkExpelled();
    this.isOutrun = looks === limits.channelLooksMax;
    return undefined;
  }

  /** The writer has committed or passed over the next position. */
  get hasNext(): boolean {
    const control = this.#control;
    const slot = this.#slot;
    const next = this.#next;
    return (
      control.isCommitted(slot, next) ||
      control.isPassedOver(slot, next) ||
      control.isPast(slot, next)
    );
  }

  /**
   * Gives a slot back: at once, or with `signal` when a stream gets there. Streams give slots back
   * in the order of their positions.
   * @throws CLOSED if it was given back before
   */
  release(taken: TakenMessage, signal?: SignalDone): void {
    if (!this.#taken.release(taken, signal)) {
      throw new CudaIpcError(
        "CLOSED",
        `Cannot release a slot of channel "${this.#label}": it was released`,
      );
    }
    this.#giveBack();
  }

  /** Retries what a stream refused to give back. @throws what the stream throws */
  retryGiveBack(): void {
    this.#taken.giveBack();
    this.#giveBack();
  }

  /** At the end of the channel, if not `hasNext`: counts what was lost after the last message. */
  countRest(): void {
    const { sequence } = this.#control;
    // It can be one less: a writer that died had not counted its last message yet.
    if (this.#sequence === undefined || sequence <= this.#sequence) return;
    this.#missed += sequence - this.#sequence;
    this.#gap += sequence - this.#sequence;
    this.#sequence = sequence;
    this.#page.setCounts(this.#received, this.#missed);
  }

  /** Counts a taken message as lost: its writer died before the GPU had finished it. */
  lose(taken: TakenMessage): void {
    this.release(taken);
    this.#received -= 1;
    this.#missed += 1;
    this.#gap += taken.missed + 1;
    this.#page.setCounts(this.#received, this.#missed);
  }

  /** @throws READER_EXPELLED if the writer has expelled this reader */
  checkExpelled(): void {
    if (!this.#control.isExpelled(this.#seat, this.#lease)) return;
    throw new CudaIpcError(
      "READER_EXPELLED",
      `Cannot read channel "${this.#label}": ` +
        "its writer found words in this reader's page that make no sense",
    );
  }

  /**
   * From here on the writer rings for each message. Check `hasNext` once more before you sleep, and
   * call `wakeUp` afterwards.
   */
  fallAsleep(): void {
    this.#page.setAsleep(this.#page.asleep | 1);
  }

  wakeUp(): void {
    const { asleep } = this.#page;
    if ((asleep & 1) === 1) this.#page.setAsleep(asleep + 1);
  }

  /** Has the streams of all released slots signal now. Nothing more is given back after this. */
  signalReleased(): void {
    this.#taken.signalReleased();
  }

  /** Gives all slots back and leaves the seat. */
  detach(): void {
    this.#taken.clear();
    this.#page.setState("left");
    this.#wakeWriter();
  }

  #attach(from: ReadFrom): number {
    const start = attach(this.#control, this.#page, {
      ...{ from, lossy: this.lossy, published: this.#next },
      oldest: () => this.#oldest(),
      refuse: (found) => this.#refuse(found),
    });
    // A writer that saw this reader further behind may sleep for want of a free slot.
    if (start.hasMoved) this.#wakeWriter();
    this.#sequence = start.sequence;
    return start.position;
  }

  /** The oldest position that the writer does not overwrite yet. Load `published` before this. */
  #oldest(): number {
    const { limit } = this.#control;
    if (!Number.isSafeInteger(limit) || limit < this.#next)
      this.#refuse(`the limit is ${limit}, ${this.#next} positions are published`);
    const oldest = Math.max(this.#control.facts.firstPosition, limit - this.#slots);
    // Load `published` after the limit, which is at most one ring's length beyond it.
    if (oldest > this.#next && oldest > this.#control.published)
      this.#refuse(`the limit is ${limit}, more than a ring beyond what is published`);
    return oldest;
  }

  /** Claims this position. If the writer was faster, `#next` has moved on and -1 is returned. */
  #claim(position: number): number {
    const claim = this.#taken.freeClaim();
    if (claim < 0) throw tooManyHeld(this.#label);
    this.#page.setClaim(claim, position + 1);
    const oldest = this.#oldest();
    if (position >= oldest) return claim;
    this.#page.setClaim(claim, 0);
    // The writer may have seen the claim and gone to sleep for want of a free slot.
    this.#wakeWriter();
    this.#moveTo(oldest);
    return -1;
  }

  #take(position: number, claim: number): TakenMessage | undefined {
    const slot = this.#slot;
    const header = this.#control.header(slot);
    const contradiction = contradictionOf(header, this.#control.facts, position);
    if (contradiction !== undefined) this.#refuse(`slot ${slot} claims ${contradiction}`);
    const { sequence } = header;
    const gap = this.#sequence === undefined ? 0 : sequence - this.#sequence;
    if (gap < 0) this.#refuse(`message ${sequence} comes after ${Number(this.#sequence) - 1}`);
    this.#sequence = sequence + 1;
    this.#missed += gap;
    this.#gap += gap;
    if ((header.flags & flags.lost) !== 0) {
      this.#missed += 1;
      this.#gap += 1;
      this.#passOver(claim);
      return undefined;
    }
    this.#received += 1;
    this.#moveTo(position + 1);
    const missed = this.#gap;
    this.#gap = 0;
    return this.#taken.add(header, { position, slot, missed, claim });
  }

  /** Whether the writer has reached the next position and left it without a message. */
  #isPassedOver(): boolean {
    const control = this.#control;
    if (control.isPassedOver(this.#slot, this.#next)) return true;
    // A lap later the writer passes over the slot that this reader has claimed. The writer cannot
    // be beyond its limit.
    return this.lossy && control.passedOver(this.#slot) > this.#next && this.#next < control.limit;
  }

  #passOver(claim: number): void {
    if (claim >= 0) this.#page.setClaim(claim, 0);
    this.#moveTo(this.#next + 1);
    this.#giveBack();
  }

  #moveTo(position: number): void {
    if (position !== this.#next + 1) this.#slot = position % this.#slots;
    else this.#slot = this.#slot + 1 === this.#slots ? 0 : this.#slot + 1;
    this.#next = position;
  }

  /** Tells the writer up to where all is given back. */
  #giveBack(): void {
    this.#page.setCounts(this.#received, this.#missed);
    this.#page.setReleased(this.#taken.oldest ?? this.#next);
    this.#wakeWriter();
  }

  /** Rings once for each sleep of the writer. */
  #wakeWriter(): void {
    const { asleep } = this.#control;
    if ((asleep & 1) === 0 || asleep === this.#rung) return;
    this.#rung = asleep;
    this.#ring();
  }

  /** An expelled reader is overwritten, so its expulsion is the better explanation. */
  #refuse(found: string): never {
    this.checkExpelled();
    throw new CudaIpcError("CHANNEL_CORRUPT", `Cannot read channel "${this.#label}": ${found}`);
  }
}
