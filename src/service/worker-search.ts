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
import { ELSEWHERE, FoundWorkers } from "./found-workers.js";
import {
  type FoundOffer,
  offerPrefix,
  offersAmong,
  requestName,
  workersAmong,
} from "./service-names.js";
import { type ConnectServiceOptions, uidsOf } from "./service-options.js";

export interface SearchEvents {
  /** Whether the search goes on. */
  isNeeded(): boolean;
  /** Whether there is a link to this worker. */
  uses(worker: string): boolean;
  /** How many more workers may be linked. */
  room(): number;
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
  /** The users whose workers it takes, once the hub has said who they are. */
  #trusted: ReadonlySet<number> | undefined;
  readonly #ended = new AbortController();
  readonly #found: FoundWorkers;
  /** Claims of offers of this machine, by worker. True if it led to a link. */
  readonly #claims = new Map<string, Promise<boolean>>();
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
    await Promise.all(this.#claims.values());
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
    this.#trusted ??= new Set([
      ...(await this.#hub.trustedUsers({ signal })),
      ...uidsOf(this.#options.workers),
    ]);
    const names = namesHere(objects);
    const owners = new Map(objects.map(({ name, ownerUid }) => [name, ownerUid]));
    const workers = workersAmong(this.#service, names);
    this.#found.see(workers);
    const begun: Promise<boolean>[] = [];
    const offers = offersAmong(this.#service, names);
    for (const offer of this.#found.bestFirst(offers, ({ name }) => owners.get(name))) {
      workers.delete(offer.worker);
      const uid = owners.get(offer.name);
      if (uid !== undefined && !this.#trusted.has(uid)) {
        this.#found.refused(offer.worker, untrusted(offer.worker, uid));
        continue;
      }
      if (!signal.aborted && this.#wants(offer.worker)) begun.push(this.#begin(offer));
    }
    const found = await this.#anyOf(begun);
    for (const worker of workers) if (this.#wants(worker)) this.#found.hasNoOffer(worker);
    const looksFurther = this.#options.machine === "any" && this.#events.isNeeded();
    return (looksFurther && (await this.#lookElsewhere())) || found;
  }

  #wants(worker: string): boolean {
    if (this.#claims.has(worker) || this.#events.uses(worker)) return false;
    return this.#events.room() > this.#claims.size;
  }

  /** Begins to claim an offer. Nothing waits for it: a worker may say nothing. */
  #begin(offer: FoundOffer): Promise<boolean> {
    const claim = this.#claimHere(offer).finally(() => this.#claims.delete(offer.worker));
    this.#claims.set(offer.worker, claim);
    return claim;
  }

  async #claimHere(offer: FoundOffer): Promise<boolean> {
    try {
      await this.#claim(offer, undefined);
      return true;
    } catch (error) {
      if (hasCode(error, "DEVICE_LOST")) {
        this.#events.onFailure(error);
        this.#found.lookFailed(error);
      }
      // Another client was faster, or the worker is gone. Another worker may do.
      else this.#found.refused(offer.worker, error);
      return false;
    }
  }

  /** Whether one of the claims led to a link. Those that take long go on beside the next look. */
  async #anyOf(claims: readonly Promise<boolean>[]): Promise<boolean> {
    const patience = new AbortController();
    const wait = { signal: AbortSignal.any([patience.signal, this.#ended.signal]) };
    const late = delay(defaults.serviceHelloMs, false, wait).catch(() => false);
    const all = Promise.all(claims).then((linked) => linked.includes(true));
    try {
      return await Promise.race([all, late]);
    } finally {
      patience.abort();
    }
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
      if (this.#events.uses(offer.worker) || this.#events.room() < 1) return false;
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
    const checkOwner = (uid: number) => {
      if (!this.#trusted?.has(uid)) throw untrusted(offer.worker, uid);
    };
    const { signal } = this.#ended;
    const claimed = await claimOffer(this.#hub, offer, this.#options, signal, checkOwner);
    this.#found.usable(offer.worker);
    this.#events.onLink({ ...claimed, machine });
  }
}

function untrusted(worker: string, uid: number): CudaIpcError {
  const remedy = `To take workers of this user, pass workers: { uid: ${uid} }.`;
  const message = `Cannot use worker "${worker}": it is of user ${uid}. ${remedy}`;
  return new CudaIpcError("UNTRUSTED_PEER", message);
}

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
