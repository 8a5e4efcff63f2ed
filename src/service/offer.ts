/**
 * A worker's offer to whichever client comes first: a channel for replies, whose only place a client takes, and a wait for the channel for
 * requests that this client then makes. A client that dies in between gives its place back, and the offer is there for the next.
 */
import type { DType } from "../array/dtype.js";
import { CudaIpcError, hasCode } from "../base/errors.js";
import { acquireInAsync } from "../base/scope.js";
import type { ChannelReader } from "../channel/channel-reader.js";
import type { ChannelWriter } from "../channel/channel-writer.js";
import type { Hub } from "../client/hub.js";
import { encodeEnvelope } from "./envelope.js";
import { factsMessage } from "./service-facts.js";
import { requestName } from "./service-names.js";
import type { ServeOptions, ServicePlan } from "./service-options.js";

export class Offer<Q extends DType = DType, R extends DType = DType> {
  readonly replies: ChannelWriter<R>;
  readonly #hub: Hub;
  readonly #plan: ServicePlan<Q, R>;
  readonly #options: ServeOptions<Q, R>;

  private constructor(hub: Hub, replies: ChannelWriter<R>, plan: ServicePlan<Q, R>, options: ServeOptions<Q, R>) {
    this.#hub = hub;
    this.replies = replies;
    this.#plan = plan;
    this.#options = options;
  }

  /** @param name under which clients find it */
  static async make<Q extends DType, R extends DType>(
    hub: Hub,
    name: string,
    plan: ServicePlan<Q, R>,
    options: ServeOptions<Q, R>,
  ): Promise<Offer<Q, R>> {
    return acquireInAsync(async (scope) => {
      const { dtype, shape, slots, readersMax, metaBytesMax } = plan.reply;
      const { device, sharing, timeoutMs, signal } = options;
      const channel = { dtype, shape, slots, readersMax, metaBytesMax, device, sharing, timeoutMs, signal };
      const replies = scope.own(await hub.createChannel<R>(name, channel), (replies) => replies.close());
      const hello = encodeEnvelope(name, { kind: "hello", number: 0 }, factsMessage(plan), metaBytesMax);
      using slot = await replies.loan();
      slot.commit({ meta: hello, byteLength: 0 });
      return new Offer(hub, replies, plan, options);
    });
  }

  /**
   * The requests of the client that takes it.
   * @throws ABORTED, PEER_GONE where a client took it and was silent, INVALID_DESCRIPTOR where it made what was not asked for
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
      const requests = await this.#hub.openChannel(requestName(label), { from: "oldest", stream, ...until });
      return this.#checked(requests);
    } catch (error) {
      if (!isSilent) throw error;
      throw new CudaIpcError("PEER_GONE", `Cannot serve "${label}": a client has taken it and is silent`, {
        cause: error,
      });
    } finally {
      clearInterval(watch);
      signal.removeEventListener("abort", giveUp);
    }
  }

  close(): void {
    this.replies.close();
  }

  /** Calls back once where a client has its place on two looks and goes no further: it may have been stopped. */
  #watchForSilence(onSilent: () => void): NodeJS.Timeout {
    let before: number | undefined;
    const look = async () => {
      const { holders } = await this.#hub.inspect(this.replies.label);
      const now = holders.find(({ role }) => role === "reader")?.pid;
      if (now !== undefined && now === before) onSilent();
      before = now;
    };
    const ignore = (error: unknown) => {
      // WHY: its name was taken away, and so nobody can find it any more.
      if (hasCode(error, "NOT_FOUND")) onSilent();
      // WHY nothing else: without a hub nobody takes it, and the wait for the client is told.
      before = undefined;
    };
    return setInterval(() => void look().catch(ignore), this.#plan.claimTimeoutMs);
  }

  /** @throws INVALID_DESCRIPTOR */
  #checked(requests: ChannelReader): ChannelReader<Q> {
    const { dtype, shape, slots, metaBytesMax } = this.#plan.request;
    const wanted = JSON.stringify([dtype, shape, slots, metaBytesMax]);
    const found = JSON.stringify([requests.dtype, requests.shape, requests.slots, requests.metaBytesMax]);
    if (found === wanted) return requests as ChannelReader<Q>;
    requests.close();
    const message = `Cannot serve "${this.replies.label}": requests come as ${found}, wanted ${wanted}`;
    throw new CudaIpcError("INVALID_DESCRIPTOR", message);
  }
}
