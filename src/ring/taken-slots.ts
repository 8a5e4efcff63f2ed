/**
 * The slots that a reader has taken and not given back. The CPU gives slots back in any order.
 * Streams give them back in the order of their positions, because one timeline reports them all.
 */
import { CudaIpcError } from "../base/errors.js";
import { heldHere } from "../base/held-here.js";
import { CLAIMS } from "./channel-layout.js";
import type { MessageHeader } from "./control-words.js";
import type { PageWords } from "./page-words.js";

/** Enqueues on a stream: the reader's timeline reaches this value when the stream gets there. */
export type SignalDone = (value: number) => void;

/** A message that was taken and not given back. */
export interface TakenMessage extends MessageHeader {
  readonly position: number;
  readonly slot: number;
  /** Messages that this reader lost since the one before, or since it began. */
  readonly missed: number;
  /** It was given back, at once or after the work of a stream. */
  readonly released: boolean;
  /** The program's object for this message. While it is set, it is not collected as garbage. */
  holder: object | undefined;
}

/** The same object as the message, so that each message costs one allocation. */
interface TakenSlot extends TakenMessage {
  /** Index of its claim word; -1 if the writer waits for this reader. */
  readonly claim: number;
  released: boolean;
  /** How its stream gives it back; undefined if the CPU does. */
  signal: SignalDone | undefined;
}

export class TakenSlots {
  readonly #page: PageWords;
  /** In the order of their positions. */
  #taken: TakenSlot[] = [];

  constructor(page: PageWords) {
    this.#page = page;
  }

  get size(): number {
    return this.#taken.length;
  }

  /** Those that the program has not released. It releases in any order. */
  get unreleased(): number {
    return this.#taken.reduce((sum, { released }) => sum + (released ? 0 : 1), 0);
  }

  /** The first position that is not given back; undefined if all are. */
  get oldest(): number | undefined {
    return this.#taken[0]?.position;
  }

  /** Messages from this position on. */
  since(position: number): TakenMessage[] {
    const before = this.#taken.findLastIndex((taken) => taken.position < position);
    return this.#taken.slice(before + 1);
  }

  add(
    header: MessageHeader,
    { position, slot, missed, claim }: Pick<TakenSlot, "position" | "slot" | "missed" | "claim">,
  ): TakenMessage {
    // WHY not spread: it takes a microsecond, many times as long as all the rest.
    const { sequence, timestampMs, byteLength, readyAt, epoch, flags, metaBytes } = header;
    const taken: TakenSlot = {
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
      signal: undefined,
      holder: undefined,
    };
    this.#taken.push(taken);
    return taken;
  }

  /** Returns false if the message is not held. */
  release(message: TakenMessage, signal: SignalDone | undefined): boolean {
    const first = this.#taken[0];
    // Most slots are given back before the next one is taken.
    const taken = first === message ? first : this.#taken.find((each) => each === message);
    if (taken === undefined || taken.released) return false;
    taken.released = true;
    taken.signal = signal;
    if (signal === undefined && taken.claim >= 0) this.#page.setClaim(taken.claim, 0);
    this.giveBack();
    return true;
  }

  /** Index of a claim word that is free; -1 if none is. */
  freeClaim(): number {
    for (let index = 0; index < CLAIMS; index += 1) {
      const claim = this.#page.claim(index);
      if (claim === 0 || (claim < 0 && this.#page.done >= -claim)) return index;
    }
    return -1;
  }

  /** Signals for all released slots, also for those behind a slot that is still held. */
  signalReleased(): void {
    for (const { position, released, signal } of this.#taken) if (released) signal?.(position + 1);
  }

  clear(): void {
    this.#taken = [];
    for (let claim = 0; claim < CLAIMS; claim += 1) this.#page.setClaim(claim, 0);
  }

  /**
   * Gives back the released slots up to the first one that is still held. If a stream refuses, the
   * next call begins with the same slot.
   */
  giveBack(): void {
    for (let next = this.#taken[0]; next?.released; next = this.#taken[0]) {
      if (next.signal !== undefined) this.#giveByStream(next, next.signal);
      // One by one: if a stream refuses, the slots before it are not given back twice.
      // WHY pop: after a shift the next push allocates a new list.
      if (this.#taken.length === 1) this.#taken.pop();
      else this.#taken.shift();
    }
  }

  #giveByStream({ position, claim }: TakenSlot, signal: SignalDone): void {
    const value = position + 1;
    signal(value);
    if (claim >= 0) this.#page.setClaim(claim, -value);
    else this.#page.setGpuReleased(value);
  }
}

/** The error of a lossy reader that has no claim left. */
export function tooManyHeld(label: string): CudaIpcError {
  return new CudaIpcError(
    "LIMIT_EXCEEDED",
    `Cannot take a message of channel "${label}": ${heldHere(CLAIMS, "message")}, ` +
      "the most with lossy",
  );
}
