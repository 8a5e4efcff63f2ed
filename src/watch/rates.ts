/** How fast channels and services go, from two snapshots. */
import type { Snapshot, WatchedChannelState, WatchedService } from "./snapshot.js";

export interface Rates {
  /** The time between the snapshots. */
  readonly ms: number;
  /** By the number of the channel's object. */
  readonly channels: ReadonlyMap<number, ChannelRates>;
  /** By name. */
  readonly services: ReadonlyMap<string, ServiceRates>;
}

/** All per second. */
export interface ChannelRates {
  readonly messages: number;
  /** The messages of this time, with the mean size of the latest ones. */
  readonly bytes: number | undefined;
  readonly dropped: number;
  /** By seat. */
  readonly readers: ReadonlyMap<number, { readonly received: number; readonly missed: number }>;
}

export interface ServiceRates {
  readonly answers: number;
}

type Readable = Extract<WatchedChannelState, { readonly unreadable?: undefined }>;

/** What was not there before has grown from 0. */
export function ratesBetween(earlier: Snapshot, later: Snapshot): Rates {
  const ms = later.monotonicMs - earlier.monotonicMs;
  const before = readable(earlier);
  const channels = new Map<number, ChannelRates>();
  for (const [object, now] of readable(later))
    channels.set(object, channelRates(before.get(object), now, ms));
  const services = later.services.map((service): [string, ServiceRates] => {
    return [service.name, serviceRates(service, channels, before, ms)];
  });
  return { ms, channels, services: new Map(services) };
}

function readable({ channels }: Snapshot): Map<number, Readable> {
  return new Map(
    channels.flatMap((channel) =>
      channel.unreadable === undefined ? [[channel.object, channel] as const] : [],
    ),
  );
}

function channelRates(before: Readable | undefined, now: Readable, ms: number): ChannelRates {
  // Not below 0: a new reader may have the seat of an earlier one.
  const growth = (later: number, earlier = 0) => (Math.max(0, later - earlier) * 1000) / ms;
  const messages = growth(now.committed, before?.committed);
  return {
    messages,
    bytes: now.meanBytes === undefined ? undefined : messages * now.meanBytes,
    dropped: growth(now.dropped, before?.dropped),
    readers: new Map(
      now.readers.map(({ place, received, missed }) => {
        const earlier = before?.readers.find((reader) => reader.place === place);
        return [
          place,
          {
            received: growth(received, earlier?.received),
            missed: growth(missed, earlier?.missed),
          },
        ];
      }),
    ),
  };
}

/** The answers of links that ended meanwhile are not counted. */
function serviceRates(
  { replyChannels }: WatchedService,
  channels: ReadonlyMap<number, ChannelRates>,
  before: ReadonlyMap<number, unknown>,
  ms: number,
): ServiceRates {
  let answers = 0;
  for (const object of replyChannels) {
    // The first message of a channel for replies is no answer.
    const hello = before.has(object) ? 0 : 1000 / ms;
    answers += Math.max(0, (channels.get(object)?.messages ?? 0) - hello);
  }
  return { answers };
}
