/**
 * The metrics of one hub for any number of scrapers. They share looks, so a flood of scrapes costs
 * the hub no more than a few looks a second.
 */
import type { HubWatch } from "../hub-watch.js";
import { MetricsText } from "./metrics-text.js";

/** A scrape within this time after a look gets the text of that look. */
const FRESH_MS = 250;
/** WHY short: a scrape of Prometheus fails after 10 s, and `cuda_ipc_up` must get there. */
const LOOK_TIMEOUT_MS = 3000;

export class MetricsSource {
  readonly #watch: Pick<HubWatch, "snapshot">;
  readonly #signal: AbortSignal;
  readonly #text = new MetricsText();
  #look: Promise<string> | undefined;
  #endedMs = Number.NEGATIVE_INFINITY;

  /** @param signal ends looks under way, and all later ones */
  constructor(watch: Pick<HubWatch, "snapshot">, signal: AbortSignal) {
    this.#watch = watch;
    this.#signal = signal;
  }

  /** The text of the look under way, or of one that has just ended, or of a new one. */
  text(): Promise<string> {
    if (this.#look === undefined || performance.now() - this.#endedMs > FRESH_MS) {
      this.#endedMs = Number.POSITIVE_INFINITY;
      this.#look = this.#lookOnce();
    }
    return this.#look;
  }

  async #lookOnce(): Promise<string> {
    const startMs = performance.now();
    try {
      const options = { timeoutMs: LOOK_TIMEOUT_MS, signal: this.#signal };
      const snapshot = await this.#watch.snapshot(options);
      return this.#text.of(snapshot, performance.now() - startMs);
    } finally {
      this.#endedMs = performance.now();
    }
  }
}
