/** Channels, their readers, and services. */
import type { ChannelReaderStatistics } from "../../channel/channel-observer.js";
import { linkNameOf } from "../../service/service-names.js";
import type { Snapshot, WatchedChannelState, WatchedObject, WatchedService } from "../snapshot.js";
import type { Family, Labels } from "./exposition.js";
import { counter, gauge } from "./hub-metrics.js";
import type { Chosen } from "./own-series.js";

export type ReadableChannel = Extract<WatchedChannelState, { readonly unreadable?: undefined }>;

/** The channels that can be read, without those of services. */
export function ownChannels({ channels }: Snapshot, isOfService: (name: string) => boolean) {
  return channels.filter(
    (channel): channel is ReadableChannel =>
      channel.unreadable === undefined && !isOfService(channel.name),
  );
}

export function channelMetrics({ own }: Chosen<ReadableChannel>): Family[] {
  const samples = (value: (channel: ReadableChannel) => number | undefined) =>
    own.map((channel) => {
      const found = value(channel);
      return found === undefined ? undefined : { labels: labelsOf(channel), value: found };
    });
  return [
    counter(
      "channel_messages",
      "Messages committed.",
      samples(({ committed }) => committed),
    ),
    counter(
      "channel_dropped_messages",
      "Messages dropped.",
      samples(({ dropped }) => dropped),
    ),
    gauge(
      "channel_slots",
      "Slots of the ring.",
      samples(({ slots }) => slots),
    ),
    gauge(
      "channel_readers",
      "Readers.",
      samples(({ readers }) => readers.length),
    ),
    gauge(
      "channel_readers_max",
      "Seats for readers.",
      samples(({ readersMax }) => readersMax),
    ),
    gauge(
      "channel_writer_up",
      "Whether the channel has a writer.",
      samples(({ writer }) => Number(writer === "open")),
    ),
    gauge(
      "channel_message_bytes",
      "Mean size of the latest messages.",
      samples(({ meanBytes }) => meanBytes),
    ),
    gauge(
      "channel_last_message_timestamp_seconds",
      "Unix time of the latest message.",
      samples(({ lastMessageAtMs }) =>
        lastMessageAtMs === undefined ? undefined : lastMessageAtMs / 1000,
      ),
    ),
  ];
}

export interface SeatedReader {
  readonly labels: Labels;
  readonly reader: ChannelReaderStatistics;
}

/** The readers of these channels with their processes. */
export function readersOf(
  channels: readonly ReadableChannel[],
  objects: readonly WatchedObject[],
): SeatedReader[] {
  const byNumber = new Map(objects.map((object) => [object.object, object]));
  return channels.flatMap((channel) =>
    channel.readers.map((reader) => {
      const holders = byNumber.get(channel.object)?.holders;
      const holder = holders?.find(({ place }) => place === reader.place);
      const { program, pid } = holder ?? {};
      return { labels: { ...labelsOf(channel), seat: reader.place, program, pid }, reader };
    }),
  );
}

export function readerMetrics({ own }: Chosen<SeatedReader>): Family[] {
  const samples = (value: (reader: ChannelReaderStatistics) => number) =>
    own.map(({ labels, reader }) => ({ labels, value: value(reader) }));
  return [
    gauge(
      "channel_reader_behind_messages",
      "Messages that were committed and that the reader has not released.",
      samples(({ behind }) => behind),
    ),
    counter(
      "channel_reader_received_messages",
      "Messages that the reader received.",
      samples(({ received }) => received),
    ),
    counter(
      "channel_reader_missed_messages",
      "Messages that the reader missed, because the writer overtook it.",
      samples(({ missed }) => missed),
    ),
  ];
}

export interface ServiceFigures {
  /** Since the exporter began. */
  readonly answers: (service: string) => number;
  readonly bytes: ReadonlyMap<string, number>;
}

/** The memory of the channels of each service. */
export function bytesOfServices(objects: readonly WatchedObject[]): Map<string, number> {
  const bytes = new Map<string, number>();
  for (const { name, heldBytes } of objects) {
    const service = linkNameOf(name)?.service;
    if (service !== undefined) bytes.set(service, (bytes.get(service) ?? 0) + heldBytes);
  }
  return bytes;
}

export function serviceMetrics(
  { own }: Chosen<WatchedService>,
  { answers, bytes }: ServiceFigures,
): Family[] {
  const samples = (value: (service: WatchedService) => number | undefined) =>
    own.map((service) => {
      const found = value(service);
      const labels = { service: service.name };
      return found === undefined ? undefined : { labels, value: found };
    });
  const seconds = (ms: number | undefined) => (ms === undefined ? undefined : ms / 1000);
  return [
    gauge(
      "service_memory_bytes",
      "Memory of its links and offers.",
      samples(({ name }) => bytes.get(name) ?? 0),
    ),
    gauge(
      "service_workers",
      "Workers.",
      samples(({ workers }) => workers),
    ),
    gauge(
      "service_links",
      "Links between a client and a worker.",
      samples(({ links }) => links),
    ),
    gauge(
      "service_offers",
      "Offers that no client took yet.",
      samples(({ offers }) => offers),
    ),
    gauge(
      "service_requests_in_progress",
      "Requests without an answer.",
      samples(({ underWay }) => underWay),
    ),
    counter(
      "service_answers",
      "Answers since the exporter began, without those of links that ended between two looks.",
      samples(({ name }) => answers(name)),
    ),
    gauge(
      "service_latency_median_seconds",
      "Median time from a request to its answer, of the latest answers.",
      samples(({ latency }) => seconds(latency?.medianMs)),
    ),
    gauge(
      "service_latency_max_seconds",
      "Longest time from a request to its answer, of the latest answers.",
      samples(({ latency }) => seconds(latency?.maxMs)),
    ),
  ];
}

function labelsOf({ name }: ReadableChannel): Labels {
  return { channel: name };
}
