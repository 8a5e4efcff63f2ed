/**
 * The services that speak over the hub's channels, found by the channels' names. Requests under way
 * and latencies come from the headers of the latest messages, which are in shared memory anyway.
 */

import { hasCode } from "../base/errors.js";
import { limits } from "../base/limits.js";
import type { ChannelObserver, ObservedMessage } from "../channel/channel-observer.js";
import { ENVELOPE_BYTES, type Kind, ReceivedEnvelope } from "../service/envelope.js";
import { linkNameOf } from "../service/service-names.js";
import type { Latency, WatchedObject, WatchedService } from "./snapshot.js";

interface Link {
  readonly worker: string;
  replies?: ChannelObserver | undefined;
  requests?: ChannelObserver | undefined;
  replyObject?: number;
  isClaimed: boolean;
}

interface Sent {
  readonly kind: Kind;
  readonly number: number;
  readonly timestampMs: number;
}

/** Each of both channels of a link has twice as many slots as requests may be under way. */
const MESSAGES_MAX = 2 * limits.serviceDepthMax;

export interface ServiceUse {
  readonly service: string;
  readonly carries: "requests" | "replies";
  /** Counts the links of a worker. */
  readonly link: string;
}

/** Which service uses a channel, and for what, by the channel's name. Undefined if none does. */
export function serviceUseOf(name: string): ServiceUse | undefined {
  const found = linkNameOf(name);
  if (found === undefined) return undefined;
  const link = found.reply.slice(found.reply.lastIndexOf(":") + 1);
  return { service: found.service, carries: found.isRequests ? "requests" : "replies", link };
}

/** In order of their names. */
export function servicesAmong(
  objects: Iterable<WatchedObject>,
  observerOf: (object: number) => ChannelObserver | undefined,
): WatchedService[] {
  const services = new Map<string, Map<string, Link>>();
  for (const { name, object, descriptor } of objects) {
    const found = descriptor.content.kind === "channel" ? linkNameOf(name) : undefined;
    if (found === undefined) continue;
    const links = services.get(found.service) ?? new Map<string, Link>();
    services.set(found.service, links);
    const link = links.get(found.reply) ?? { worker: found.worker, isClaimed: false };
    links.set(found.reply, link);
    if (found.isRequests) {
      link.requests = observerOf(object);
      link.isClaimed = true;
    } else {
      link.replies = observerOf(object);
      link.replyObject = object;
    }
  }
  return [...services]
    .map(([name, links]) => serviceOf(name, [...links.values()]))
    .sort((one, other) => (one.name < other.name ? -1 : 1));
}

function serviceOf(name: string, links: readonly Link[]): WatchedService {
  const claimed = links.filter(({ isClaimed }) => isClaimed);
  const latencies: number[] = [];
  let [underWay, answered] = [0, 0];
  for (const { requests, replies } of claimed) {
    if (requests === undefined || replies === undefined) continue;
    const facts = factsIfReadable(requests, replies);
    if (facts === undefined) continue;
    underWay += facts.underWay;
    answered += facts.answered;
    latencies.push(...facts.latencies);
  }
  return {
    name,
    workers: new Set(links.map(({ worker }) => worker)).size,
    links: claimed.length,
    offers: links.length - claimed.length,
    underWay,
    answered,
    latency: latencyOf(latencies),
    replyChannels: claimed.flatMap(({ replyObject }) => replyObject ?? []),
    offerChannels: links.flatMap(({ isClaimed, replyObject }) =>
      isClaimed ? [] : (replyObject ?? []),
    ),
  };
}

/** Undefined if the words of a channel make no sense. Any program can write them. */
function factsIfReadable(
  requests: ChannelObserver,
  replies: ChannelObserver,
): ReturnType<typeof factsOf> | undefined {
  try {
    return factsOf(requests, replies);
  } catch (error) {
    if (hasCode(error, "CHANNEL_CORRUPT")) return undefined;
    throw error;
  }
}

function factsOf(requests: ChannelObserver, replies: ChannelObserver) {
  // WHY the requests first: an answer that comes meanwhile is then seen with its request.
  const { readers, slots } = requests.statistics();
  const sent = requests.messages(MESSAGES_MAX, ENVELOPE_BYTES);
  const answers = new Map(
    sentIn(replies.messages(MESSAGES_MAX, ENVELOPE_BYTES)).map(({ number, timestampMs }) => [
      number,
      timestampMs,
    ]),
  );
  // The worker releases its slots in order, so no request before these is under way.
  const open = requestsIn(sent.slice(0, readers[0]?.behind ?? 0));
  const latencies = requestsIn(sent).flatMap(({ number, timestampMs }) => {
    const answeredAtMs = answers.get(number);
    return answeredAtMs === undefined ? [] : [answeredAtMs - timestampMs];
  });
  return {
    underWay: Math.min(open.filter(({ number }) => !answers.has(number)).length, slots / 2),
    // The hello is no answer.
    answered: Math.max(0, replies.statistics().committed - 1),
    latencies,
  };
}

function requestsIn(messages: readonly ObservedMessage[]): Sent[] {
  return sentIn(messages).filter(({ kind }) => kind === "request");
}

function sentIn(messages: readonly ObservedMessage[]): Sent[] {
  return messages.flatMap(({ meta, timestampMs }) => {
    try {
      const { kind, number } = new ReceivedEnvelope("a service", meta);
      return [{ kind, number, timestampMs }];
    } catch {
      // Not a message of a service: another program uses such a name.
      return [];
    }
  });
}

/** WHY not below 0: the clocks of two processes differ a little. */
function latencyOf(latencies: readonly number[]): Latency | undefined {
  const sorted = latencies.map((ms) => Math.max(0, ms)).sort((one, other) => one - other);
  const [median, max] = [sorted[Math.floor(sorted.length / 2)], sorted.at(-1)];
  if (median === undefined || max === undefined) return undefined;
  return { count: sorted.length, medianMs: median, maxMs: max };
}
