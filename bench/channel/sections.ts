/** The channel benchmarks with their names and titles. */
import type { Row } from "../measure.js";
import { idleChannels } from "./idle.js";
import { besideTorch, throughStreams } from "./on-device.js";
import { messageSizes, readerCounts } from "./sizes-and-readers.js";
import { roundTrip, throughput, wake } from "./small-messages.js";
import { watchedChannels } from "./watched.js";

export interface Section {
  /** For `--only`. */
  readonly key: string;
  readonly title: string;
  readonly measure: () => Promise<Row[]>;
}

/** @param device for the loops through streams. All others use the host device. */
export function channelSections(device: string): Section[] {
  return [
    {
      key: "channel-throughput",
      title: "Messages one way, on the host device",
      measure: () => throughput(),
    },
    {
      key: "channel-round-trip",
      title: "Messages there and back, on the host device",
      measure: () => roundTrip(),
    },
    {
      key: "channel-wake",
      title: "A reader that sleeps is woken, on the host device",
      measure: () => wake(),
    },
    {
      key: "channel-sizes",
      title: "Messages of all sizes, on the host device",
      measure: () => messageSizes(),
    },
    {
      key: "channel-readers",
      title: "More and more readers, on the host device",
      measure: () => readerCounts(),
    },
    {
      key: "channel-idle",
      title: "Idle channels, on the host device",
      measure: () => idleChannels(),
    },
    {
      key: "channel-watched",
      title: "Diagnostics of channels: a message's cost on both sides, on the host device",
      measure: () => watchedChannels(),
    },
    {
      key: "channel-copies",
      title: `Copies through a channel on ${device}`,
      measure: () => throughStreams("channel-copies", device),
    },
    {
      key: "channel-kernels",
      title: `Kernels on both sides of a channel on ${device}`,
      measure: () => throughStreams("channel-kernels", device),
    },
    {
      key: "channel-torch",
      title: `Beside PyTorch on ${device}`,
      measure: () => besideTorch(device),
    },
  ];
}
