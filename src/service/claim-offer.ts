/**
 * Claims a worker's offer, makes the channel for the client's requests, and waits until the worker
 * reads it. A reply channel has one reader: the client that opens it first has the offer.
 */
import { setTimeout as delay } from "node:timers/promises";
import { Deadline } from "../base/deadline.js";
import { CudaIpcError, hasCode } from "../base/errors.js";
import { defaults } from "../base/limits.js";
import { acquireInAsync, releaseAll } from "../base/scope.js";
import type { ChannelReader } from "../channel/channel-reader.js";
import type { ChannelWriter } from "../channel/channel-writer.js";
import type { Hub } from "../client/hub.js";
import type { ClientChannels } from "./client-link.js";
import { ReceivedEnvelope } from "./envelope.js";
import { slotsOf } from "./link-window.js";
import { parseFacts, type ServiceFacts } from "./service-facts.js";
import { type FoundOffer, requestName } from "./service-names.js";
import type { ConnectServiceOptions } from "./service-options.js";

/** A claim usually takes a few milliseconds. Then the next offer is claimed as well. */
const PATIENCE_MS = 100;

export type ClaimedOffer = Omit<ClientChannels, "machine">;

/**
 * @param checkOwner throws if no worker of this user is wanted
 * @throws READERS_FULL if another client was faster
 * @throws NOT_FOUND, PEER_GONE if the worker is gone
 * @throws TIMEOUT if it sends no hello, or does not open the channel of the requests
 * @throws the errors of `openChannel` and `createChannel`, and of `checkOwner`
 */
export async function claimOffer(
  hub: Hub,
  { worker, name }: FoundOffer,
  { device, stream, sharing }: ConnectServiceOptions,
  signal: AbortSignal,
  checkOwner?: (uid: number) => void,
): Promise<ClaimedOffer> {
  const attempt = `connect to worker "${name}"`;
  const deadline = new Deadline(attempt, { signal }, defaults.requestTimeoutMs);
  return acquireInAsync(async (scope) => {
    const rest = () => ({ signal, timeoutMs: deadline.remainingMs });
    const opened = await hub.openChannel(name, { from: "oldest", wait: false, stream, ...rest() });
    const replies = scope.own(opened, (replies) => replies.close());
    // WHY only now: while it is open here, its name cannot pass to another user unseen.
    if (checkOwner !== undefined) checkOwner((await hub.inspect(name, rest())).object.ownerUid);
    const facts = await readHello(replies, signal);
    const { dtype, shape, metaBytesMax } = facts.request;
    const ring = {
      slots: slotsOf(facts.depth),
      readersMax: 1,
      device: device ?? replies.device.name,
      sharing,
    };
    const created = await hub.createChannel(requestName(name), {
      dtype,
      shape,
      metaBytesMax,
      ...ring,
      ...rest(),
    });
    const requests = scope.own(created, (requests) => requests.close());
    await isRead(requests, replies, signal);
    return { worker, requests, replies, facts, stream };
  });
}

/**
 * Claims one of these offers. A claim that takes long is left beside the next one, because a worker
 * may say nothing.
 * @param onRefused told why an offer could not be used, or was not before another one
 * @throws HUB_GONE, CLOSED
 */
export async function claimAnyOf<Offer extends FoundOffer>(
  offers: readonly Offer[],
  claim: (offer: Offer, signal: AbortSignal) => Promise<ClaimedOffer>,
  onRefused: (offer: Offer, error: unknown) => void,
): Promise<{ readonly offer: Offer; readonly claimed: ClaimedOffer } | undefined> {
  const over = new AbortController();
  let found: { readonly offer: Offer; readonly claimed: ClaimedOffer } | undefined;
  let failure: { readonly error: unknown } | undefined;
  const isOver = () => found !== undefined || failure !== undefined;
  const underWay = new Set<Promise<void>>();
  const begin = async (offer: Offer) => {
    try {
      const claimed = await claim(offer, over.signal);
      if (isOver()) giveBack(claimed);
      else found = { offer, claimed };
    } catch (error) {
      const isOfHub = hasCode(error, "HUB_GONE") || hasCode(error, "CLOSED");
      if (isOfHub && !isOver()) failure = { error };
      else onRefused(offer, error);
    }
  };
  try {
    for (const offer of offers) {
      const attempt = begin(offer).finally(() => underWay.delete(attempt));
      underWay.add(attempt);
      await Promise.race([attempt, delay(PATIENCE_MS)]);
      if (isOver()) break;
    }
    while (!isOver() && underWay.size > 0) await Promise.race(underWay);
  } finally {
    over.abort();
  }
  if (failure !== undefined) throw failure.error;
  return found;
}

/** Lets the worker make another offer. */
function giveBack({ requests, replies }: ClaimedOffer): void {
  releaseAll([() => replies.close(), () => requests.abandon()]);
}

/** @throws TIMEOUT, PEER_GONE, CHANNEL_CORRUPT, PROTOCOL_MISMATCH */
async function readHello(replies: ChannelReader, signal: AbortSignal): Promise<ServiceFacts> {
  const { label } = replies;
  const deadline = limited(label, signal, defaults.serviceHelloMs, "it has sent no hello");
  using first = await replies.next(deadline.rest()).catch((error) => {
    throw named(error, deadline);
  });
  if (first === undefined) throw closed(label);
  const hello = new ReceivedEnvelope(label, first.meta);
  if (hello.kind !== "hello")
    throw unexpected(label, `its first message is of kind "${hello.kind}"`);
  return parseFacts(label, hello.json);
}

/**
 * Waits until the worker has attached to the requests. Until then nobody would answer them.
 * @throws TIMEOUT, PEER_GONE, CHANNEL_CORRUPT
 */
async function isRead(
  requests: ChannelWriter,
  replies: ChannelReader,
  signal: AbortSignal,
): Promise<void> {
  const { label } = replies;
  const found = `it has not opened its requests. If it runs as another user, pass \`sharing\``;
  const deadline = limited(label, signal, defaults.serviceClaimTimeoutMs, found);
  const over = new AbortController();
  const wait = { ...deadline.rest(), signal: AbortSignal.any([signal, over.signal]) };
  const end = replies.next(wait).then((slot) => {
    throw slot === undefined ? closed(label) : unexpected(label, "it replies to no request");
  });
  try {
    await Promise.race([requests.waitForReaders(1, wait), end]);
  } catch (error) {
    throw named(error, deadline);
  } finally {
    over.abort();
    // The next call may only read the replies once this one is over.
    await end.catch(() => {});
  }
}

function limited(label: string, signal: AbortSignal, timeoutMs: number, found: string): Deadline {
  return new Deadline(`connect to worker "${label}"`, { signal, timeoutMs }, 0, () => found);
}

function named(error: unknown, deadline: Deadline): unknown {
  return hasCode(error, "TIMEOUT") ? deadline.timedOut() : deadline.named(error);
}

function closed(label: string): CudaIpcError {
  return new CudaIpcError("PEER_GONE", `Cannot connect to worker "${label}": it was closed`);
}

function unexpected(label: string, found: string): CudaIpcError {
  return new CudaIpcError("CHANNEL_CORRUPT", `Cannot connect to worker "${label}": ${found}`);
}
