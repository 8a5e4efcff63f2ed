/** Finds workers of a service while they are needed: looks at the names on the hub, less and less often where nobody new is there. */
import { type CudaIpcError, hasCode } from "../base/errors.js";
import { GrowingPause } from "../base/growing-pause.js";
import { defaults } from "../base/limits.js";
import type { Hub } from "../client/hub.js";
import { claimOffer } from "./claim-offer.js";
import type { ClientChannels } from "./client-link.js";
import { FoundWorkers } from "./found-workers.js";
import { pauseFor } from "./pause-for.js";
import { offerPrefix, offersAmong, workersAmong } from "./service-names.js";
import type { ConnectServiceOptions } from "./service-options.js";

export interface SearchEvents {
  /** Whether to go on. */
  isNeeded(): boolean;
  /** Whether a link to this worker is wanted. */
  wants(worker: string): boolean;
  /** Takes over the channels. */
  onLink(channels: ClientChannels): void;
  /** There is no hub any more, or the device is lost. */
  onFailure(error: CudaIpcError): void;
}

export class WorkerSearch {
  readonly #hub: Hub;
  readonly #service: string;
  readonly #options: ConnectServiceOptions;
  readonly #events: SearchEvents;
  readonly #ended = new AbortController();
  readonly #found = new FoundWorkers();
  #underWay: Promise<void> | undefined;
  #lastLookMs = Number.NEGATIVE_INFINITY;

  constructor(hub: Hub, service: string, options: ConnectServiceOptions, events: SearchEvents) {
    this.#hub = hub;
    this.#service = service;
    this.#options = options;
    this.#events = events;
  }

  /** Looks until it is needed no more, where it does not do so already. */
  begin(): void {
    if (this.#ended.signal.aborted) return;
    this.#underWay ??= this.#run().finally(() => {
      this.#underWay = undefined;
      if (this.#events.isNeeded()) this.begin();
    });
  }

  /** Looks once where the last look was long ago. */
  lookAgain(): void {
    if (performance.now() - this.#lastLookMs > defaults.serviceLookAgainMs) this.begin();
  }

  /** For who has waited in vain: says what was found of each worker. */
  timedOut(attempt: string, timeoutMs: number): CudaIpcError {
    return this.#found.timedOut(attempt, timeoutMs);
  }

  /** Nothing is found any more once this resolves. */
  async close(): Promise<void> {
    this.#ended.abort();
    await this.#underWay;
  }

  async #run(): Promise<void> {
    const { signal } = this.#ended;
    const pause = new GrowingPause();
    for (;;) {
      try {
        if (await this.#look()) pause.reset();
      } catch (error) {
        if (endsSearch(error)) this.#events.onFailure(error);
        this.#found.lookFailed(error);
      }
      this.#lastLookMs = performance.now();
      if (signal.aborted || !this.#events.isNeeded()) return;
      await pauseFor(pause.nextMs(), signal);
      if (signal.aborted || !this.#events.isNeeded()) return;
    }
  }

  /** Whether somebody new was found. */
  async #look(): Promise<boolean> {
    const { signal } = this.#ended;
    const objects = await this.#hub.list({ prefix: offerPrefix(this.#service), signal });
    const names = objects.map(({ name }) => name);
    const workers = workersAmong(this.#service, names);
    this.#found.see(workers);
    let found = false;
    for (const offer of offersAmong(this.#service, names)) {
      workers.delete(offer.worker);
      if (signal.aborted || !this.#events.wants(offer.worker)) continue;
      try {
        const channels = await claimOffer(this.#hub, offer, this.#options, signal);
        found = true;
        this.#found.usable(offer.worker);
        this.#events.onLink(channels);
      } catch (error) {
        if (endsSearch(error)) throw error;
        // WHY no end: another was faster, the worker has gone, or it is none. The next one may do.
        this.#found.refused(offer.worker, error);
      }
    }
    for (const worker of workers) if (this.#events.wants(worker)) this.#found.hasNoOffer(worker);
    return found;
  }
}

function endsSearch(error: unknown): error is CudaIpcError {
  return (["CLOSED", "HUB_GONE", "DEVICE_LOST"] as const).some((code) => hasCode(error, code));
}
