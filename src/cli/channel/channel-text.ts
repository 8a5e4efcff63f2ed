/** What an observer sees of a channel, as text. */
import type { ChannelReaderStatistics, ChannelStatistics } from "../../channel/channel-observer.js";
import { formatTable } from "../table.js";
import { plural, sizeWords } from "../words.js";
import { rateWords } from "./traffic.js";

/** How much more it was than a look before, and in what time. */
export interface Growth {
  readonly ms: number;
  readonly earlier: ChannelStatistics;
}

const writerWords: Readonly<Record<ChannelStatistics["writer"], string>> = {
  open: "is there",
  awaited: "is gone, and the next one is waited for",
  closed: "has ended the channel",
  gone: "died, and the channel with it",
};

const whenFullWords: Readonly<Record<ChannelStatistics["whenFull"], string>> = {
  wait: "wait: for the slowest reader",
  "drop-oldest": "drop-oldest: slow readers miss messages",
  "drop-newest": "drop-newest: what finds no room is not sent",
  error: "error: the writer is told",
};

/** Title and text. */
export function channelRows(now: ChannelStatistics, growth?: Growth): [string, string][] {
  const { writer, writers, slots, slotBytes, metaBytesMax, readersMax, whenFull, committed, dropped, readers } = now;
  const rate = growth === undefined ? "" : `, ${rateWords(committed - growth.earlier.committed, growth.ms)} messages/s`;
  const after = writers === 1 ? "" : ` (number ${writers})`;
  return [
    ["writer", `${writerWords[writer]}${after}`],
    ["slots", `${slots} of ${sizeWords(slotBytes)}, each with ${sizeWords(metaBytesMax)} of meta at most`],
    ["when full", whenFullWords[whenFull]],
    ["committed", `${plural(committed, "message")}${rate}`],
    ["dropped", String(dropped)],
    ["readers", `${readers.length} of ${readersMax}`],
  ];
}

/** A line for each reader, under a line of titles; nothing where there are none. */
export function readerLines({ readers }: ChannelStatistics, growth?: Growth): string[] {
  if (readers.length === 0) return [];
  const columns = ["PLACE", "RECEIVED", "BEHIND", "MISSED", ...(growth === undefined ? [] : ["PER SECOND"])];
  const titles = [...columns.map((title) => ({ title, align: "right" as const })), { title: "STATE" }];
  const rows = readers.map((reader) => [...cells(reader, growth), stateWords(reader)]);
  return formatTable(titles, rows).map((line) => `  ${line}`);
}

function cells({ place, received, behind, missed }: ChannelReaderStatistics, growth: Growth | undefined): string[] {
  const counts = [place, received, behind, missed].map(String);
  if (growth === undefined) return counts;
  const before = growth.earlier.readers.find((reader) => reader.place === place)?.received ?? 0;
  // WHY not less: another reader may have come to the same place.
  return [...counts, rateWords(Math.max(0, received - before), growth.ms)];
}

function stateWords({ expelled, asleep, mayBeOvertaken }: ChannelReaderStatistics): string {
  const words = expelled ? "expelled" : asleep ? "asleep" : "awake";
  return mayBeOvertaken ? `${words}, may be overtaken` : words;
}
