/** Describes the state of a channel for `channel stat` and `inspect`. */
import type { ChannelReaderStatistics, ChannelStatistics } from "../../channel/channel-observer.js";
import { formatTable } from "../terminal/table.js";
import { plural, sizeWords } from "../terminal/words.js";
import { rateWords } from "./traffic.js";

/** The statistics of an earlier look, and the time since then. */
export interface Growth {
  readonly ms: number;
  readonly earlier: ChannelStatistics;
}

const writerWords: Readonly<Record<ChannelStatistics["writer"], string>> = {
  open: "connected",
  awaited: "gone, the channel waits for the next one",
  closed: "has ended the channel",
  gone: "died, which ended the channel",
};

const whenFullWords: Readonly<Record<ChannelStatistics["whenFull"], string>> = {
  wait: "wait: the writer waits for the slowest reader",
  "drop-oldest": "drop-oldest: slow readers miss messages",
  "drop-newest": "drop-newest: the writer drops the new message",
  error: "error: the writer gets an error",
};

/** Rows of title and text. */
export function channelRows(now: ChannelStatistics, growth?: Growth): [string, string][] {
  const {
    writer,
    writers,
    slots,
    slotBytes,
    metaBytesMax,
    readersMax,
    whenFull,
    committed,
    dropped,
    readers,
  } = now;
  const rate =
    growth === undefined
      ? ""
      : `, ${rateWords(committed - growth.earlier.committed, growth.ms)} messages/s`;
  const after = writers === 1 ? "" : ` (number ${writers})`;
  return [
    ["writer", `${writerWords[writer]}${after}`],
    [
      "slots",
      `${slots} of ${sizeWords(slotBytes)}, each with up to ${sizeWords(metaBytesMax)} of meta`,
    ],
    ["when full", whenFullWords[whenFull]],
    ["committed", `${plural(committed, "message")}${rate}`],
    ["dropped", String(dropped)],
    ["readers", `${readers.length} of ${readersMax}`],
  ];
}

/** A title line and a line for each reader. Empty if there are no readers. */
export function readerLines({ readers }: ChannelStatistics, growth?: Growth): string[] {
  if (readers.length === 0) return [];
  const columns = [
    "READER",
    "RECEIVED",
    "BEHIND",
    "MISSED",
    ...(growth === undefined ? [] : ["PER SECOND"]),
  ];
  const titles = [
    ...columns.map((title) => ({ title, align: "right" as const })),
    { title: "STATE" },
  ];
  const rows = readers.map((reader) => [...cells(reader, growth), stateWords(reader)]);
  return formatTable(titles, rows).map((line) => `  ${line}`);
}

function cells(
  { place, received, behind, missed }: ChannelReaderStatistics,
  growth: Growth | undefined,
): string[] {
  const counts = [place, received, behind, missed].map(String);
  if (growth === undefined) return counts;
  const before = growth.earlier.readers.find((reader) => reader.place === place)?.received ?? 0;
  // Not below zero: a new reader may have got the number of an earlier one.
  return [...counts, rateWords(Math.max(0, received - before), growth.ms)];
}

function stateWords({ expelled, asleep, lossy }: ChannelReaderStatistics): string {
  const words = expelled ? "expelled" : asleep ? "asleep" : "awake";
  return lossy ? `${words}, lossy` : words;
}
