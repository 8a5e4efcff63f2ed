/**
 * Notices that the other side of a link is silent, or talks but does nothing that it owes. Keeps a
 * link alive over which nothing else is sent. One timer, because each wakes the bridge up.
 */
import { defaults } from "../../base/limits.js";
import { Debt } from "./debt.js";

/** So that the other side hears of this one in time, also if one greeting is late. */
const LOOK_MS = defaults.machineSilenceMs / 4;

export interface LivenessEvents {
  /** @param found what the other side did not do, as the end of a sentence */
  onDead(found: string): void;
  /** Whether the link is used, although nothing may be sent for a long time. */
  isUsed(): boolean;
  /** Lets the other side answer. If it does not, it counts as silent, which ends the link. */
  greet(): void;
}

export class Liveness {
  readonly #debt = new Debt();
  readonly #events: LivenessEvents;
  #heardMs = performance.now();
  #sentMs = performance.now();
  #timer: NodeJS.Timeout | undefined;

  constructor(events: LivenessEvents) {
    this.#events = events;
    this.#lookIn(LOOK_MS);
  }

  /** When something last came from the other side. */
  get heardMs(): number {
    return this.#heardMs;
  }

  heard(): void {
    this.#heardMs = performance.now();
  }

  /** The other side gave something that it owed. */
  paid(): void {
    this.#debt.paid();
  }

  /** The other side owes what this waits for. */
  async owed<T>(work: Promise<T>): Promise<T> {
    this.#debt.begin();
    try {
      const given = await work;
      this.heard();
      this.paid();
      return given;
    } finally {
      this.#debt.end();
    }
  }

  sent(): void {
    this.#sentMs = performance.now();
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #lookIn(ms: number): void {
    this.#timer = setTimeout(() => this.#look(), ms);
    this.#timer.unref();
  }

  #look(): void {
    const limit = defaults.machineSilenceMs;
    const nowMs = performance.now();
    const silentInMs = this.#heardMs + limit - nowMs;
    const overdueInMs = this.#debt.overdueInMs(nowMs, limit);
    if (silentInMs <= 0) this.#events.onDead(`nothing came from it for ${limit / 1000} s`);
    else if (overdueInMs <= 0) {
      const found = "it has sent or taken nothing that it should";
      this.#events.onDead(`${found} for ${limit / 1000} s`);
    } else {
      if (this.#events.isUsed() && nowMs - this.#sentMs >= LOOK_MS / 2) this.#events.greet();
      this.#lookIn(Math.min(LOOK_MS, silentInMs, overdueInMs));
    }
  }
}
