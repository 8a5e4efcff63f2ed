/**
 * Claims workers of this machine for clients of another one, over one link. For a worker, this
 * bridge is an ordinary client. The other machine reads its replies as any channel, and lends the
 * client's requests, which are written here for the worker.
 */
import { arrayByteLength } from "../../array/layout.js";
import { Deadline } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { releaseAll } from "../../base/scope.js";
import type { Hub } from "../../client/hub.js";
import { type ClaimedOffer, claimAnyOf, claimOffer } from "../../service/claim-offer.js";
import { withDeadline } from "../../service/envelope.js";
import { FoundWorkers } from "../../service/found-workers.js";
import { factsMessage } from "../../service/service-facts.js";
import { type FoundOffer, linksOf, offerPrefix, offersAmong } from "../../service/service-names.js";
import type { CallResult } from "../../wire/link-messages.js";
import type { ObjectSummary } from "../../wire/messages.js";
import type { ChannelServer } from "../channels/channel-server.js";
import { MessageCarrier } from "../channels/message-carrier.js";
import type { LentReader } from "../link/link-server.js";
import type { MachineLink } from "../link/machine-link.js";
import { type AnnounceRule, mayOffer } from "../local-names.js";
import type { CallOf } from "../transfer/export-server.js";

export interface ClaimParts {
  readonly hub: Hub;
  readonly rule: AnnounceRule;
  readonly channels: ChannelServer;
  link(): MachineLink;
}

interface Offer extends FoundOffer {
  readonly object: ObjectSummary;
}

export class ClaimServer {
  readonly #parts: ClaimParts;
  readonly #claimed = new Map<number, ClaimedWorker>();
  /** By service, the workers that could not be used. They come last. */
  readonly #found = new Map<string, FoundWorkers>();

  constructor(parts: ClaimParts) {
    this.#parts = parts;
  }

  async claim({ service, except }: CallOf<"claim">): Promise<CallResult<"claim">> {
    const attempt = `claim a worker of service "${service}" for another machine`;
    const { channel, lent } = await this.#parts.channels.lendOpened(attempt, () =>
      this.#open(attempt, service, new Set(except)),
    );
    this.#claimed.set(channel, lent);
    lent.onClose = () => this.#claimed.delete(channel);
    return { channel, ...lent.facts };
  }

  /** The service of each claimed worker. */
  get services(): readonly string[] {
    return [...this.#claimed.values()].map(({ service }) => service);
  }

  attach({ channel, requests }: CallOf<"attach">): CallResult<"attach"> {
    const claimed = this.#claimed.get(channel);
    if (claimed === undefined)
      throw new CudaIpcError("NOT_FOUND", `Cannot attach to channel ${channel}: it is no worker's`);
    claimed.attach(this.#parts.link(), requests, () => this.#parts.channels.takeBack(channel));
    return {};
  }

  /** @throws NOT_FOUND, or why the last offer could not be claimed */
  async #open(
    attempt: string,
    service: string,
    except: ReadonlySet<string>,
  ): Promise<ClaimedWorker> {
    let failure: unknown;
    const known = this.#found.get(service) ?? new FoundWorkers(this.#parts.hub.socketPath);
    const offers = (await this.#offers(service)).filter(({ worker }) => !except.has(worker));
    known.see(new Set(offers.map(({ worker }) => worker)));
    const claimed = await claimAnyOf(
      known.bestFirst(offers, ({ object }) => object.ownerUid),
      (offer, signal) => this.#claimOne(offer, signal),
      (offer, error) => {
        // Another client was faster, or the worker is gone.
        failure = error;
        known.refused(offer.worker, error);
        this.#found.set(service, known);
      },
    );
    if (claimed !== undefined)
      return new ClaimedWorker(service, claimed.claimed, claimed.offer.object);
    if (offers.length === 0) this.#found.delete(service);
    const found = "no worker of it that may be used by other machines has a free offer";
    throw failure ?? new CudaIpcError("NOT_FOUND", `Cannot ${attempt}: ${found}`);
  }

  #claimOne({ object, ...offer }: Offer, signal: AbortSignal): Promise<ClaimedOffer> {
    const { hub, rule } = this.#parts;
    // The worker reads the requests. It is of another user only if that user shares the offer.
    const isForeign = object.ownerUid !== rule.uid;
    const sharing = isForeign ? { with: object.sharing.with } : undefined;
    const checkOwner = (uid: number) => {
      if (uid === object.ownerUid) return;
      const found = `it has passed to user ${uid}`;
      throw new CudaIpcError("UNTRUSTED_PEER", `Cannot claim worker "${offer.worker}": ${found}`);
    };
    return claimOffer(hub, offer, { sharing }, signal, checkOwner);
  }

  /** The offers of users whose workers may be used, those with the fewest clients first. */
  async #offers(service: string): Promise<readonly Offer[]> {
    const { hub, rule } = this.#parts;
    const objects = await hub.list({ prefix: offerPrefix(service) });
    const byName = new Map(objects.map((object) => [object.name, object]));
    const links = linksOf(service, byName.keys());
    return offersAmong(service, byName.keys())
      .flatMap((offer) => {
        const object = byName.get(offer.name);
        if (object === undefined || !mayOffer(object, service, rule)) return [];
        return [{ ...offer, object }];
      })
      .sort((one, other) => (links.get(one.worker) ?? 0) - (links.get(other.worker) ?? 0));
  }
}

/** A worker whose replies the other machine reads, until it leaves them or the link ends. */
class ClaimedWorker implements LentReader {
  readonly service: string;
  readonly #channels: ClaimedOffer;
  readonly #object: ObjectSummary;
  readonly #stop = new AbortController();
  onClose: () => void = () => {};
  #isAttached = false;

  constructor(service: string, channels: ClaimedOffer, object: ObjectSummary) {
    this.service = service;
    this.#channels = channels;
    this.#object = object;
  }

  get reader(): ClaimedOffer["replies"] {
    return this.#channels.replies;
  }

  get facts(): Omit<CallResult<"claim">, "channel"> {
    const { name, object, descriptor } = this.#object;
    const { content } = descriptor;
    if (content.kind !== "channel") throw new TypeError(`an offer of kind ${content.kind}`);
    return { name, object, content, hello: factsMessage(this.#channels.facts) };
  }

  /** @param onFailure the requests can be carried no more, and the client must be told */
  attach(link: MachineLink, channel: number, onFailure: () => void): void {
    const { requests, facts } = this.#channels;
    const name = requests.label;
    if (this.#isAttached)
      throw new CudaIpcError("INVALID_MESSAGE", `Cannot attach to "${name}": it has requests`);
    this.#isAttached = true;
    const { dtype, shape, metaBytesMax } = facts.request;
    const slotBytes = arrayByteLength(dtype, shape);
    const { signal } = this.#stop;
    const deadline = new Deadline(`carry "${name}"`, { signal }, Number.POSITIVE_INFINITY);
    const carrier = new MessageCarrier(
      { name, link, channel, slotBytes, metaBytesMax },
      { deadline, keepsNumbers: false, metaOf: withDeadline, onProgress: () => {} },
    );
    carrier.carry(requests).then(
      (hasGone) => (hasGone ? requests.abandon() : requests.end()),
      () => onFailure(),
    );
  }

  /**
   * WHY the replies first: the worker ends its side when the client does. The other machine would
   * take that for a worker that has begun none of the requests.
   */
  close(): void {
    const { requests, replies } = this.#channels;
    const message = `Cannot carry "${requests.label}": the other machine has left it`;
    releaseAll([
      () => replies.close(),
      () => this.#stop.abort(new CudaIpcError("ABORTED", message)),
      () => requests.abandon(),
      () => this.onClose(),
    ]);
  }
}
