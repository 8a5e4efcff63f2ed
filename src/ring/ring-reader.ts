/**
 * A reader's side of a ring: where it begins, the next message, and giving slots back in any order. Never waits. What it reads of the
 * writer's words is checked before it is used.
 */
import { CudaIpcError } from "../base/errors.js";
import { CLAIMS, flags } from "./channel-layout.js";
import type { ControlWords, MessageHeader } from "./control-words.js";
import { contradictionOf } from "./header-check.js";
import { HeldSlots, type ReleaseOrder, type TakenMessage } from "./held-slots.js";
import type { PageWords } from "./page-words.js";
import { type ReadFrom, sequenceFrom, startPosition } from "./ring-start.js";

export type { ReadFrom, ReleaseOrder, TakenMessage };

export interface RingReaderOptions {
  readonly label: string;
  readonly place: number;
  readonly lease: number;
  readonly from: ReadFrom;
  readonly mayBeOvertaken: boolean;
  /** Wakes the writer. */
  readonly ring: () => void;
}

export class RingReader {
  readonly mayBeOvertaken: boolean;
  readonly #label: string;
  readonly #control: ControlWords;
  readonly #page: PageWords;
  readonly #place: number;
  readonly #lease: number;
  readonly #slots: number;
  readonly #held: HeldSlots;
  #next: number;
  #slot: number;
  /** Of the message that comes next if none is lost; undefined before the first where none can be lost or nothing says it. */
  #sequence: number | undefined;
  /** Messages that were lost since the last that was taken. */
  #gap = 0;
  #received = 0;
  #missed = 0;
  readonly #ring: () => void;
  /** The count of the writer's sleeps for which its bell was rung. */
  #rung = 0;

  /** Attaches to a page that the hub has prepared for this lease. */
  constructor(control: ControlWords, page: PageWords, options: RingReaderOptions) {
    this.#label = options.label;
    this.#control = control;
    this.#page = page;
    this.#held = new HeldSlots(page);
    this.#place = options.place;
    this.#lease = options.lease;
    this.#ring = options.ring;
    this.#slots = control.facts.slots;
    this.mayBeOvertaken = options.mayBeOvertaken || control.facts.whenFull === "drop-oldest";
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
    return this.#held.size;
  }

  /** Whether a slot could be held beside those that are. */
  get mayHoldMore(): boolean {
    return !this.mayBeOvertaken || this.#held.freeClaim() >= 0;
  }

  /**
   * The next message, which is held until it is given back; undefined where there is none yet.
   * @throws CHANNEL_CORRUPT, READER_EXPELLED; LIMIT_EXCEEDED where it holds too many
   */
  tryTake(): TakenMessage | undefined {
    for (;;) {
      if (!this.hasNext) {
        this.checkExpelled();
        return undefined;
      }
      const position = this.#next;
      const claim = this.mayBeOvertaken ? this.#claim(position) : -1;
      if (this.#next !== position) continue;
      if (this.#control.isCommitted(this.#slot, position)) {
        const taken = this.#take(position, claim);
        if (taken !== undefined) return taken;
      } else if (this.#isPassedOver()) this.#passOver(claim);
      else this.#refuse(`slot ${this.#slot} is of ${this.#control.generation(this.#slot)}, wanted ${position + 1}`);
    }
  }

  /** Whether the writer has come to the next position. */
  get hasNext(): boolean {
    const control = this.#control;
    const slot = this.#slot;
    const next = this.#next;
    return control.isCommitted(slot, next) || control.isPassedOver(slot, next) || control.isPast(slot, next);
  }

  /**
   * Gives a slot back: at once, or when a stream gets there. Slots that streams give back are given back in the order of their positions.
   * @throws CLOSED where it was given back before
   */
  release(taken: TakenMessage, order?: ReleaseOrder): void {
    if (!this.#held.release(taken, order)) {
      throw new CudaIpcError("CLOSED", `Cannot release a slot of channel "${this.#label}": it was released`);
    }
    this.#giveBack();
  }

  /** Tries again what a stream refused to give back, and what came after. @throws as that stream */
  giveBackOwed(): void {
    this.#held.giveBack();
    this.#giveBack();
  }

  /** The message was never there for this reader: its writer died before the GPU had finished it. */
  lose(taken: TakenMessage): void {
    this.release(taken);
    this.#received -= 1;
    this.#missed += 1;
    this.#gap += taken.missed + 1;
    this.#page.setCounts(this.#received, this.#missed);
  }

  /** Asks whether the writer has turned this reader away. @throws READER_EXPELLED */
  checkExpelled(): void {
    if (!this.#control.isExpelled(this.#place, this.#lease)) return;
    throw new CudaIpcError(
      "READER_EXPELLED",
      `Cannot read channel "${this.#label}": its writer found words in this reader's page that make no sense`,
    );
  }

  /** From here on the writer rings when there is a message. The caller looks once more before it sleeps, and calls `wakeUp` after it. */
  fallAsleep(): void {
    this.#page.setAsleep(this.#page.asleep | 1);
  }

  wakeUp(): void {
    const { asleep } = this.#page;
    if ((asleep & 1) === 1) this.#page.setAsleep(asleep + 1);
  }

  /** What streams are still to give back once older slots are is signalled now: nothing more is given back here. */
  signalOwed(): void {
    this.#held.signalOwed();
  }

  /** Nothing is held any more, and the writer looks at this place no longer. */
  detach(): void {
    this.#held.clear();
    this.#page.setState("left");
    this.#wakeWriter();
  }

  #attach(from: ReadFrom): number {
    const page = this.#page;
    const published = this.#next;
    const { firstPosition } = this.#control.facts;
    if (published < firstPosition) this.#refuse(`${published} positions are published, the first was ${firstPosition}`);
    const askOldest = () => this.#oldest();
    const begin = startPosition(this.#control, from, published, askOldest);
    let position = begin;
    page.setAsleep((page.asleep + 1) & ~1);
    page.setMode(this.mayBeOvertaken ? "mayBeOvertaken" : "waitedFor");
    page.setDone(position);
    page.setReleased(position);
    page.setState("attached");
    // WHY again: the writer may have gone on before it could see this reader.
    let oldest = this.#oldest();
    do {
      if (position < oldest) {
        position = oldest;
        page.setDone(position);
        page.setReleased(position);
      }
      // WHY not where it is waited for: it loses nothing before its first message.
      if (this.mayBeOvertaken) this.#sequence = sequenceFrom(this.#control, position, askOldest);
      oldest = this.#oldest();
    } while (position < oldest);
    // WHY: a writer that saw it further behind may have gone to sleep for want of room.
    if (position !== begin) this.#wakeWriter();
    const sequence = this.#sequence ?? 0;
    if (sequence < 0 || sequence > position - firstPosition) this.#refuse(`message ${sequence} comes at ${position}`);
    return position;
  }

  /** What the writer does not yet go over. Asked after what is published was, which is no further than the limit then. */
  #oldest(): number {
    const { limit } = this.#control;
    if (!Number.isSafeInteger(limit) || limit < this.#next) {
      this.#refuse(`the limit is ${limit}, ${this.#next} positions are published`);
    }
    return Math.max(this.#control.facts.firstPosition, limit - this.#slots);
  }

  /** The claim on this position; where it was overtaken, `#next` has moved on. */
  #claim(position: number): number {
    const claim = this.#held.freeClaim();
    if (claim < 0) {
      throw new CudaIpcError(
        "LIMIT_EXCEEDED",
        `Cannot take a message of channel "${this.#label}": ${CLAIMS} slots are held, the most where a reader may be overtaken`,
      );
    }
    this.#page.setClaim(claim, position + 1);
    const oldest = this.#oldest();
    if (position >= oldest) return claim;
    this.#page.setClaim(claim, 0);
    // WHY: the writer may have seen the claim, and gone to sleep for want of room.
    this.#wakeWriter();
    // WHY after the limit, which is no further than a ring's length beyond.
    const { published } = this.#control;
    if (oldest > published) this.#refuse(`the limit is ${oldest + this.#slots}, ${published} positions are published`);
    this.#moveTo(oldest);
    return -1;
  }

  #take(position: number, claim: number): TakenMessage | undefined {
    const slot = this.#slot;
    const header = this.#control.header(slot);
    this.#check(header);
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
    return this.#held.add(header, { position, slot, missed, claim });
  }

  #check(header: MessageHeader): void {
    const found = contradictionOf(header, this.#control.facts, this.#next);
    if (found !== undefined) this.#refuse(`slot ${this.#slot} claims ${found}`);
  }

  /** Of the next position, which the writer has come to, and where there is no message. */
  #isPassedOver(): boolean {
    const control = this.#control;
    if (control.isPassedOver(this.#slot, this.#next)) return true;
    // WHY: a lap later the writer goes past what this reader has claimed. WHY not beyond the limit: there it cannot have come, and going on
    // would take until the end of the numbers.
    return this.mayBeOvertaken && control.passedOver(this.#slot) > this.#next && this.#next < control.limit;
  }

  #passOver(claim: number): void {
    if (claim >= 0) this.#page.setClaim(claim, 0);
    this.#moveTo(this.#next + 1);
    this.#giveBack();
  }

  #moveTo(position: number): void {
    this.#slot =
      position === this.#next + 1 ? (this.#slot + 1 === this.#slots ? 0 : this.#slot + 1) : position % this.#slots;
    this.#next = position;
  }

  /** Tells the writer how far all is given back. */
  #giveBack(): void {
    this.#page.setCounts(this.#received, this.#missed);
    this.#page.setReleased(this.#held.oldest ?? this.#next);
    this.#wakeWriter();
  }

  /** Once for each of its sleeps. */
  #wakeWriter(): void {
    const { asleep } = this.#control;
    if ((asleep & 1) === 0 || asleep === this.#rung) return;
    this.#rung = asleep;
    this.#ring();
  }

  /** The writer's words make no sense; or it goes over what this reader counts on, since it has turned it away. */
  #refuse(found: string): never {
    this.checkExpelled();
    throw new CudaIpcError("CHANNEL_CORRUPT", `Cannot read channel "${this.#label}": ${found}`);
  }
}
