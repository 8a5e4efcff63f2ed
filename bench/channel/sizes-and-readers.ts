/**
 * Measures how the cost of a message depends on its size, if only its first and last bytes are
 * touched, and how the writer's cost depends on the number of readers. Both on the host device.
 */
import { HubProcess } from "../hub/hub-process.js";
import type { Row } from "../measure.js";
import {
  type Contender,
  comparedWith,
  figureOf,
  measureInTurns,
  type Times,
  valueFrom,
} from "./in-turns.js";
import { throughChannel } from "./programs.js";

export interface SizeOptions {
  readonly sizes: readonly number[];
  readonly messages: number;
  readonly rounds: number;
}

export interface ReaderCountOptions {
  readonly readers: readonly number[];
  readonly messages: number;
  /** Messages that find all readers asleep, with a pause between them. */
  readonly wakes: number;
  readonly rounds: number;
}

const KiB = 1024;
const MiB = 1024 * KiB;
const ALL_SIZES: SizeOptions = {
  sizes: [64 * KiB, MiB, 8 * MiB, 64 * MiB],
  messages: 20_000,
  rounds: 3,
};
const ALL_READERS: ReaderCountOptions = {
  readers: [1, 2, 4, 8, 16],
  messages: 50_000,
  wakes: 300,
  rounds: 3,
};

const device = "host";
/**
 * Above this, time depends on size: copying 64 MiB would take a thousand times as long as 64 KiB.
 */
const SIZE_RATIO_MAX = 2;
const READER_GOAL_US = 1;
const p50 = (times: Times) => times.p50;

export async function messageSizes({
  sizes,
  messages,
  rounds,
}: SizeOptions = ALL_SIZES): Promise<Row[]> {
  await using hub = await HubProcess.start();
  const contenders: Record<string, Contender> = {};
  for (const size of sizes) {
    contenders[size] = throughChannel("channel-sizes", hub, {
      device,
      iterations: messages,
      extra: [String(size)],
    });
  }
  const found = await measureInTurns(contenders, { rounds, by: "p50" });
  const [smallest = 0] = sizes;
  const least = figureOf(found[smallest] ?? "", p50);
  return sizes.map((size) => {
    const outcome = found[size] ?? "";
    const row: Row = {
      what: `a message of ${sizeText(size)}, p50`,
      ...valueFrom(outcome, p50),
      unit: "us",
    };
    if (size === smallest) return row;
    const ratio = figureOf(outcome, p50) / least;
    const compared = { ...row, ...comparedWith(sizeText(smallest), ratio) };
    if (size !== sizes.at(-1)) return compared;
    const goal = `independent of size: at most ${SIZE_RATIO_MAX} times ${sizeText(smallest)}`;
    return { ...compared, goal, met: ratio <= SIZE_RATIO_MAX };
  });
}

export async function readerCounts(options: ReaderCountOptions = ALL_READERS): Promise<Row[]> {
  const { readers, messages, wakes, rounds } = options;
  await using hub = await HubProcess.start();
  const [fewest = 1] = readers;
  const most = readers.at(-1) ?? fewest;
  const contenders: Record<string, Contender> = {};
  const add = (count: number, state: "spinning" | "asleep", iterations: number) => {
    const extra = [String(count), state];
    contenders[`${count} ${state}`] = throughChannel("channel-readers", hub, {
      device,
      iterations,
      extra,
    });
  };
  for (const count of readers) add(count, "spinning", messages);
  for (const count of [fewest, most]) add(count, "asleep", wakes);
  const found = await measureInTurns(contenders, { rounds, by: "p50" });
  const us = (count: number) => figureOf(found[`${count} spinning`] ?? "", p50);
  const eachMoreUs = (us(most) - us(fewest)) / (most - fewest);
  return [
    ...readers.map((count) => ({
      what: `the writer's time for a message, ${count} ${count === 1 ? "reader" : "readers"}, p50`,
      ...valueFrom(found[`${count} spinning`] ?? "", p50),
      unit: "us",
    })),
    {
      what: `the same, each reader more, ${fewest} to ${most}`,
      value: eachMoreUs,
      unit: "us",
      goal: `under ${READER_GOAL_US} us`,
      met: eachMoreUs < READER_GOAL_US,
    },
    ...[fewest, most].map((count) => ({
      what: `the same where ${count === 1 ? "1 reader sleeps and is" : `${count} readers sleep and are`} woken, p50`,
      ...valueFrom(found[`${count} asleep`] ?? "", p50),
      unit: "us",
    })),
  ];
}

function sizeText(byteLength: number): string {
  return byteLength < MiB ? `${byteLength / KiB} KiB` : `${byteLength / MiB} MiB`;
}
