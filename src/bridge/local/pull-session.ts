/**
 * A process that waits for a name. It asks for news again and again, so a slow one gets the latest
 * news and no queue.
 */
import { CudaIpcError } from "../../base/errors.js";
import { defaults } from "../../base/limits.js";
import type { PeerClient } from "../../peer/peer-listener.js";
import type { BridgeRequest } from "../../wire/bridge-messages.js";
import type { FetchTable, PullState } from "../transfer/fetch-table.js";

/** At most ten answers a second about a fetch. */
const NEWS_MS = 100;
/** Without news the last ones are repeated, so that the process sees that this one is there. */
const REPEAT_MS = defaults.bridgeSilenceMs / 4;

export class PullSession {
  readonly #client: PeerClient;
  readonly #stop = new AbortController();
  #news: PullState | undefined;
  /** The latest state that the client was told. */
  #told: PullState | undefined;
  /** The last news, if it was of a wait. */
  #waiting: (PullState & { readonly state: "waiting" }) | undefined;
  #isAsked = true;
  #sentMs = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    client: PeerClient,
    fetches: FetchTable,
    { name, wait }: BridgeRequest & { readonly op: "pull" },
  ) {
    this.#client = client;
    const onState = (state: PullState) => this.#tell(state);
    fetches.pull(name, { wait, signal: this.#stop.signal, onState }).then(
      (done) => this.#tell(done),
      (error) => {
        clearTimeout(this.#timer);
        if (!this.#stop.signal.aborted) client.refuse(error);
      },
    );
  }

  /** The process wants to know more. */
  next(): void {
    this.#isAsked = true;
    this.#flush();
  }

  /** The process waits no longer. */
  end(): void {
    clearTimeout(this.#timer);
    this.#stop.abort(new CudaIpcError("ABORTED", "Cannot fetch: the process waits no longer"));
  }

  #tell(state: PullState): void {
    // A wait goes on until something else happens.
    const waiting = state.state === "waiting" ? state : undefined;
    if (waiting !== undefined && waiting.namesAway === this.#waiting?.namesAway) return;
    this.#waiting = waiting;
    this.#news = state;
    this.#flush();
  }

  #repeat(): void {
    this.#news ??= this.#told;
    this.#sentMs = Number.NEGATIVE_INFINITY;
    this.#flush();
  }

  #flush(): void {
    if (!this.#isAsked) return;
    clearTimeout(this.#timer);
    if (this.#news === undefined) {
      this.#timer = setTimeout(() => this.#repeat(), REPEAT_MS);
      return;
    }
    const pauseMs = this.#news.state === "done" ? 0 : this.#sentMs + NEWS_MS - performance.now();
    if (pauseMs > 0) {
      this.#timer = setTimeout(() => this.#flush(), pauseMs);
      return;
    }
    const news = this.#news;
    this.#told = news;
    this.#news = undefined;
    this.#isAsked = false;
    this.#sentMs = performance.now();
    try {
      this.#client.send({ v: 1, ok: true, ...news });
    } catch (error) {
      // It does not read. WHY caught: a timer and a fetch have no caller who would.
      this.#client.refuse(error);
    }
  }
}
