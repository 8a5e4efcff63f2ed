/**
 * Finds workers of a service while a client needs them. It lists the names on the hub, then asks
 * the bridge if workers of other machines are wanted, and waits longer each time if no new worker
 * appears.
 */
import { setTimeout as delay } from "node:timers/promises";
import { Deadline } from "../base/deadline.js";
import { CudaIpcError, hasCode } from "../base/errors.js";
import { defaults, limits } from "../base/limits.js";
import { GrowingPause } from "../base/pause.js";
import type { Hub } from "../client/hub.js";
import type { OfferedWorker } from "../wire/bridge-messages.js";
import type { ObjectSummary } from "../wire/messages.js";
import { claimOffer } from "./claim-offer.js";
import type { ClientChannels } from "./client-link.js";
import {
  type FoundOffer,
  offerPrefix,
  offersAmong,
  requestName,
  workersAmong,
} from "./service-names.js";
import type { ConnectServiceOptions } from "./service-options.js";

export interface SearchEvents {
  /** Whether the search goes on. */
  isNeeded(): boolean;
  /** Whether a link to this worker is wanted. */
  wants(worker: string): boolean;
  /** The workers of other machines to which there are links. */
  farWorkers(): readonly string[];
  /** Takes over the channels. */
  onLink(channels: ClientChannels): void;
  /** The hub is gone, or the device is lost. */
  onFailure(error: CudaIpcError): void;
}

export class WorkerSearch {
  readonly #hub: Hub;
  readonly #service: string;
  readonly #options: ConnectServiceOptions;
  readonly #events: SearchEvents;
  readonly #ended = new AbortController();
  readonly #found: FoundWorkers;
  #underWay: Promise<void> | undefined;
  #lastLookMs = Number.NEGATIVE_INFINITY;

  constructor(hub: Hub, service: string, options: ConnectServiceOptions, events: SearchEvents) {
    this.#hub = hub;
    this.#service = service;
    this.#options = options;
    this.#events = events;
    this.#found = new FoundWorkers(hub.socketPath);
  }

  /** Searches until no worker is needed. Does nothing if a search is running. */
  begin(): void {
    if (this.#ended.signal.aborted) return;
    this.#underWay ??= this.#run().finally(() => {
      this.#underWay = undefined;
      if (this.#events.isNeeded()) this.begin();
    });
  }

  /** Looks once if the last look was long ago. */
  lookAgain(): void {
    if (performance.now() - this.#lastLookMs > defaults.serviceLookAgainMs) this.begin();
  }

  /** The error of a request that found no usable worker in time. It says why for each worker. */
  timedOut(attempt: string, timeoutMs: number): CudaIpcError {
    return this.#found.timedOut(attempt, timeoutMs);
  }

  /** No worker is found after this resolves. */
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
      await delay(pause.nextMs(), undefined, { signal }).catch(() => {});
      if (signal.aborted || !this.#events.isNeeded()) return;
    }
  }

  /** Returns whether a new worker was found. */
  async #look(): Promise<boolean> {
    const { signal } = this.#ended;
    const objects = await this.#hub.list({ prefix: offerPrefix(this.#service), signal });
    const names = namesHere(objects);
    const workers = workersAmong(this.#service, names);
    this.#found.see(workers);
    let found = false;
    for (const offer of offersAmong(this.#service, names)) {
      workers.delete(offer.worker);
      if (signal.aborted || !this.#events.wants(offer.worker)) continue;
      try {
        await this.#claim(offer, undefined);
        found = true;
      } catch (error) {
        if (hasCode(error, "DEVICE_LOST")) throw error;
        // Another client was faster, or the worker is gone. Try the next worker.
        this.#found.refused(offer.worker, error);
      }
    }
    for (const worker of workers) if (this.#events.wants(worker)) this.#found.hasNoOffer(worker);
    const looksFurther = this.#options.machine === "any" && this.#events.isNeeded();
    return (looksFurther && (await this.#lookElsewhere())) || found;
  }

  /** Returns whether the bridge offered a worker of another machine. */
  async #lookElsewhere(): Promise<boolean> {
    const { signal } = this.#ended;
    if (signal.aborted) return false;
    const deadline = new Deadline(
      `find workers of service "${this.#service}" on other machines`,
      { signal },
      // WHY not longer: meanwhile no new worker of this machine is found.
      defaults.serviceClaimTimeoutMs,
    );
    let offer: OfferedWorker | undefined;
    try {
      // WHY here: whoever uses one machine loads none of it.
      const { askForWorker } = await import("../client/connection/bridge-call.js");
      const except = this.#events.farWorkers().slice(0, limits.farWorkersMax);
      offer = await askForWorker(this.#hub.socketPath, this.#service, except, deadline);
      this.#found.usable(ELSEWHERE);
      if (!this.#events.wants(offer.worker)) return false;
      await this.#claim(offer, offer.machine);
      return true;
    } catch (error) {
      // Without an offer it is the bridge that refuses, whatever has happened to it.
      if (offer !== undefined && hasCode(error, "DEVICE_LOST")) throw error;
      this.#found.refused(ELSEWHERE, error);
      return false;
    }
  }

  async #claim(offer: FoundOffer, machine: string | undefined): Promise<void> {
    const claimed = await claimOffer(this.#hub, offer, this.#options, this.#ended.signal);
    this.#found.usable(offer.worker);
    this.#events.onLink({ ...claimed, machine });
  }
}

/** Instead of a worker, if the bridge could offer none. */
const ELSEWHERE = "other machines";

/** Offers that a bridge made are for the client that asked for them. */
function namesHere(objects: readonly ObjectSummary[]): string[] {
  const far = new Set<string>();
  for (const { name, descriptor } of objects)
    if (descriptor.replicaOf !== undefined) far.add(name).add(requestName(name));
  return objects.map(({ name }) => name).filter((name) => !far.has(name));
}

/**
 * True for an error of a look that each later look would meet, too. Errors of one worker do not
 * come here: a worker may be lost with an earlier hub.
 */
function endsSearch(error: unknown): error is CudaIpcError {
  const codes = ["CLOSED", "HUB_GONE", "DISCONNECTED", "DEVICE_LOST"] as const;
  return codes.some((code) => hasCode(error, code));
}

/** Workers whose errors the message quotes. The cause has all of them. */
const TOLD_MAX = 3;

/** Why each worker that was found could not be used, for the timeout error. */
class FoundWorkers {
  readonly #unusable = new Map<string, unknown>();
  readonly #socketPath: string;
  /** Why the hub could not be asked the last time. */
  #lookFailure: unknown;

  constructor(socketPath: string) {
    this.#socketPath = socketPath;
  }

  /** A look has begun, and found these workers. */
  see(workers: ReadonlySet<string>): void {
    this.#lookFailure = undefined;
    // The bridge has not been asked again yet.
    for (const worker of this.#unusable.keys())
      if (worker !== ELSEWHERE && !workers.has(worker)) this.#unusable.delete(worker);
  }

  refused(worker: string, error: unknown): void {
    this.#unusable.set(worker, error);
  }

  usable(worker: string): void {
    this.#unusable.delete(worker);
  }

  /** The worker has no open offer now. */
  hasNoOffer(worker: string): void {
    const found = "it has no free offer: it has clientsMax clients, is closing, or makes one now";
    const advice = "Start another worker, or raise clientsMax.";
    const message = `Cannot use worker "${worker}": ${found}. ${advice}`;
    this.#unusable.set(worker, new CudaIpcError("READERS_FULL", message));
  }

  lookFailed(error: unknown): void {
    this.#lookFailure = error;
  }

  /** @param attempt in words: `request from service "double"` */
  timedOut(attempt: string, timeoutMs: number): CudaIpcError {
    const errors =
      this.#lookFailure === undefined ? [...this.#unusable.values()] : [this.#lookFailure];
    const where = `; the hub is at ${this.#socketPath}`;
    if (errors.length === 0) {
      const found = `no worker was found within ${timeoutMs} ms${where}`;
      return new CudaIpcError("TIMEOUT", `Cannot ${attempt}: ${found}`);
    }
    const what =
      this.#lookFailure === undefined
        ? `none of ${errors.length} workers could be used within ${timeoutMs} ms`
        : `no worker was found within ${timeoutMs} ms, because the hub did not list its names`;
    const told = errors.slice(0, TOLD_MAX).map(wordsOf);
    if (errors.length > TOLD_MAX) told.push(`and ${errors.length - TOLD_MAX} more`);
    const only = errors.length === 1 ? errors[0] : undefined;
    return new CudaIpcError("TIMEOUT", `Cannot ${attempt}: ${what}: ${told.join("; ")}${where}`, {
      cause: only ?? new AggregateError(errors, what),
      remedy: only instanceof CudaIpcError ? only.remedy : undefined,
    });
  }
}

function wordsOf(error: unknown): string {
  if (error instanceof CudaIpcError) return `${error.code}: ${error.message}`;
  return String(error);
}
