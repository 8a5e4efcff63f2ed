/**
 * A worker's offers. An offer is a channel for replies with one reader, and a wait for the request
 * channel of the client that opens it. If that client leaves before it has made its channel, the
 * worker makes another offer.
 *
 * The hub keeps a service's name for its user as long as the service has an offer or a link. So
 * what has ended goes only once the next offer is there: otherwise another user could claim the
 * only offer, stay silent, and take the name in the moment without one.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { DType } from "../array/dtype.js";
import type { WaitOptions } from "../base/deadline.js";
import { CudaIpcError, hasCode } from "../base/errors.js";
import { GrowingPause } from "../base/pause.js";
import { acquireInAsync, releaseAll } from "../base/scope.js";
import type { ChannelReader } from "../channel/channel-reader.js";
import type { ChannelWriter } from "../channel/channel-writer.js";
import type { Hub } from "../client/hub.js";
import { encodeEnvelope } from "./envelope.js";
import { factsMessage } from "./service-facts.js";
import { newWorkerId, replyName, requestName } from "./service-names.js";
import { type ServeOptions, type ServicePlan, uidsOf } from "./service-options.js";

class WorkerOffer<Q extends DType = DType, R extends DType = DType> {
  readonly replies: ChannelWriter<R>;
  readonly #hub: Hub;
  readonly #plan: ServicePlan<Q, R>;
  readonly #options: ServeOptions<Q, R>;

  private constructor(
    hub: Hub,
    replies: ChannelWriter<R>,
    plan: ServicePlan<Q, R>,
    options: ServeOptions<Q, R>,
  ) {
    this.#hub = hub;
    this.replies = replies;
    this.#plan = plan;
    this.#options = options;
  }

  /** @param name where clients find the offer */
  static async make<Q extends DType, R extends DType>(
    hub: Hub,
    name: string,
    plan: ServicePlan<Q, R>,
    options: ServeOptions<Q, R>,
  ): Promise<WorkerOffer<Q, R>> {
    return acquireInAsync(async (scope) => {
      const { dtype, shape, slots, readersMax, metaBytesMax } = plan.reply;
      const { sharing, timeoutMs, signal } = options;
      const channel = {
        ...{ dtype, shape, slots, readersMax, metaBytesMax },
        ...{ sharing, timeoutMs, signal },
        workers: uidsOf(options.workers),
      };
      const created = hub.createOffer<R>(name, hub.device(options.device), channel);
      const replies = scope.own(await created, (replies) => replies.close());
      const hello = encodeEnvelope(
        name,
        { kind: "hello", number: 0 },
        factsMessage(plan),
        metaBytesMax,
      );
      using slot = await replies.loan();
      slot.commit({ meta: hello, byteLength: 0 });
      return new WorkerOffer(hub, replies, plan, options);
    });
  }

  /**
   * Returns the requests of the client that claims the offer.
   * @throws ABORTED; PEER_GONE if a client claimed it and then stayed silent
   * @throws INVALID_DESCRIPTOR if the client made a channel of another shape
   */
  async taken(signal: AbortSignal): Promise<ChannelReader<Q>> {
    const { label } = this.replies;
    const wait = new AbortController();
    const giveUp = () => wait.abort();
    if (signal.aborted) giveUp();
    signal.addEventListener("abort", giveUp);
    let isSilent = false;
    const watch = this.#watchForSilence(() => {
      isSilent = true;
      giveUp();
    });
    try {
      const { stream } = this.#options;
      const until = { timeoutMs: Number.POSITIVE_INFINITY, signal: wait.signal };
      const requests = await this.#hub.openChannel(requestName(label), {
        from: "oldest",
        stream,
        ...until,
      });
      return this.#checked(requests);
    } catch (error) {
      if (!isSilent) throw error;
      throw new CudaIpcError(
        "PEER_GONE",
        `Cannot serve "${label}": a client claimed it and is silent`,
        {
          cause: error,
        },
      );
    } finally {
      clearInterval(watch);
      signal.removeEventListener("abort", giveUp);
    }
  }

  close(): void {
    this.replies.close();
  }

  /** Calls back if two looks in a row find the same reader. Such a client may have been stopped. */
  #watchForSilence(onSilent: () => void): NodeJS.Timeout {
    let before: number | undefined;
    const look = async () => {
      const { holders } = await this.#hub.inspect(this.replies.label);
      const now = holders.find(({ role }) => role === "reader")?.pid;
      if (now !== undefined && now === before) onSilent();
      before = now;
    };
    const ignore = (error: unknown) => {
      // The offer's name was taken away, so no client can find it.
      if (hasCode(error, "NOT_FOUND")) onSilent();
      // Without a hub no client can claim the offer, and the wait for a client fails by itself.
      before = undefined;
    };
    return setInterval(() => void look().catch(ignore), this.#plan.claimTimeoutMs);
  }

  /** @throws INVALID_DESCRIPTOR */
  #checked(requests: ChannelReader): ChannelReader<Q> {
    const { dtype, shape, slots, metaBytesMax } = this.#plan.request;
    const wanted = JSON.stringify([dtype, shape, slots, metaBytesMax]);
    const found = JSON.stringify([
      requests.dtype,
      requests.shape,
      requests.slots,
      requests.metaBytesMax,
    ]);
    if (found === wanted) return requests as ChannelReader<Q>;
    requests.close();
    throw new CudaIpcError(
      "INVALID_DESCRIPTOR",
      `Cannot serve "${this.replies.label}": its client sends ${found}, wanted ${wanted}`,
    );
  }
}

export interface OfferTakers<Q extends DType, R extends DType> {
  /** Called when a client has taken an offer. Takes over the channels of its link. */
  onTaken(requests: ChannelReader<Q>, replies: ChannelWriter<R>): void;
  /** Whether the worker takes another client. */
  hasRoom(): boolean;
}

/** Keeps one offer of a worker open while the worker has room for another client. */
export class WorkerOffers<Q extends DType = DType, R extends DType = DType> {
  readonly #ended = new AbortController();
  readonly #make: (wait: WaitOptions) => Promise<WorkerOffer<Q, R>>;
  readonly #stopWatchingHub: () => void;
  readonly #first: WorkerOffer<Q, R>;
  /** No offer is open, so what ends stays until the next one is. */
  #keepsName = false;
  /** Each closes one of these. */
  readonly #endedOnes: (() => void)[] = [];
  #hasHub = true;
  #done: Promise<void> = Promise.resolve();
  #onRoom: () => void = () => {};

  private constructor(
    hub: Hub,
    first: WorkerOffer<Q, R>,
    make: (wait: WaitOptions) => Promise<WorkerOffer<Q, R>>,
  ) {
    this.#first = first;
    this.#make = make;
    this.#stopWatchingHub = hub.onEnd(() => {
      this.#hasHub = false;
    });
  }

  /** Makes the first offer of a new worker. */
  static async open<Q extends DType, R extends DType>(
    hub: Hub,
    service: string,
    plan: ServicePlan<Q, R>,
    options: ServeOptions<Q, R>,
  ): Promise<WorkerOffers<Q, R>> {
    const worker = newWorkerId();
    let made = 0;
    const make = (wait: WaitOptions) => {
      made += 1;
      const name = replyName(service, worker, made - 1);
      return WorkerOffer.make(hub, name, plan, { ...options, ...wait });
    };
    const { timeoutMs, signal } = options;
    return new WorkerOffers(hub, await make({ timeoutMs, signal }), make);
  }

  /** Links clients from here on. Call it once. */
  start(takers: OfferTakers<Q, R>): void {
    this.#done = this.#run(takers);
  }

  /**
   * A link has ended, so there may be room for another client.
   * @param closeReplies closes the channel that was its offer
   */
  linkEnded(closeReplies: () => void): void {
    this.#leave(closeReplies);
    this.#onRoom();
  }

  /** Takes back the open offer. No client is linked after this resolves. */
  async close(): Promise<void> {
    this.#ended.abort();
    this.#stopWatchingHub();
    this.#onRoom();
    await this.#done;
  }

  async #run(takers: OfferTakers<Q, R>): Promise<void> {
    const { signal } = this.#ended;
    const pause = new GrowingPause();
    let offer: WorkerOffer<Q, R> | undefined = this.#first;
    while (!signal.aborted) {
      try {
        offer ??= await this.#next();
        const requests = await offer.taken(signal);
        this.#keepsName = true;
        takers.onTaken(requests, offer.replies);
        offer = undefined;
        pause.reset();
        await this.#room(takers);
      } catch (error) {
        this.#keepsName = true;
        const ended = offer;
        offer = undefined;
        if (ended !== undefined) this.#leave(() => ended.close());
        if (hasCode(error, "CLOSED") || !this.#hasHub) break;
        // The hub may be full, or a client may send nonsense again and again.
        await delay(pause.nextMs(), undefined, { signal }).catch(() => {});
      }
    }
    this.#keepsName = false;
    this.#closeEnded();
    offer?.close();
  }

  async #next(): Promise<WorkerOffer<Q, R>> {
    try {
      const offer = await this.#make({ timeoutMs: undefined, signal: this.#ended.signal });
      this.#keepsName = false;
      return offer;
    } finally {
      // Also if it failed, perhaps for lack of the room that these take.
      this.#closeEnded();
    }
  }

  #leave(close: () => void): void {
    if (this.#keepsName) this.#endedOnes.push(close);
    else close();
  }

  #closeEnded(): void {
    releaseAll(this.#endedOnes.splice(0));
  }

  async #room(takers: OfferTakers<Q, R>): Promise<void> {
    while (!takers.hasRoom() && !this.#ended.signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#onRoom = resolve;
      });
    }
  }
}
