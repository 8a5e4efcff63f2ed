/**
 * Measures what a channel of 64-byte messages loses while it is watched. One writer and one reader
 * run all the time, and so do the watchers, which are stopped while others or nobody shall watch.
 * Each round measures all ways to watch for a second each, in an order that changes.
 */

import type { Row } from "../measure.js";
import { excessOf, excessRow, medianOf } from "../paired.js";
import { HelperProcess } from "./helper-process.js";
import { HubProcess } from "./hub-process.js";
import { AllWatchers, Watchers, watcher } from "./watchers.js";

export interface WatchedChannelOptions {
  readonly rounds: number;
  /** How long each way to watch is measured in a round. */
  readonly roundMs: number;
  /** Messages that are written before any of them is read: they fit into a core's cache. */
  readonly burst: number;
}

const EXCESS_PERCENT_MAX = 1;
const OFTEN_MS = 100;
/** Bursts in turns, and then as many in one go while both sides work at once. */
const BURSTS = 4;

interface Cost {
  readonly cpuUs: number;
  readonly wallUs: number;
}

/** The figures of one round, in microseconds for a message. */
interface Figures {
  /** CPU time of both sides, which work one after the other and so wait for nothing. */
  readonly cpuUs: number;
  /** Time between two messages while both sides work at once, each on a core if there is one. */
  readonly togetherUs: number;
}

const WAYS = ["nobody", "often", "all"] as const;
type Way = (typeof WAYS)[number];
/** Each way comes first, second and last equally often, and before and after each other one. */
const ORDERS: readonly (readonly [Way, Way, Way])[] = [
  ["nobody", "often", "all"],
  ["all", "often", "nobody"],
  ["often", "all", "nobody"],
  ["nobody", "all", "often"],
  ["all", "nobody", "often"],
  ["often", "nobody", "all"],
];

export async function watchedChannel(options: WatchedChannelOptions): Promise<Row[]> {
  await using hub = await HubProcess.start();
  await using pair = await Pair.start(hub, options.burst);
  await using nobody = new Watchers();
  await using often = new Watchers(await watcher(hub, OFTEN_MS));
  await using all = await AllWatchers.start(hub);
  const ways: Readonly<Record<Way, Watchers>> = { nobody, often, all };
  for (const way of WAYS) ways[way].stop();
  // Compiled code and its memory are as they stay.
  await pair.measure(options.roundMs);
  const found: Record<Way, Figures[]> = { nobody: [], often: [], all: [] };
  const spent = { cpuMs: 0, wallMs: 0 };
  for (let round = 0; round < options.rounds; round += 1) {
    for (const way of ORDERS[round % ORDERS.length] ?? []) {
      const before = { cpuMs: all.cpuMs(), atMs: performance.now() };
      ways[way].goOn();
      found[way].push(await pair.measure(options.roundMs));
      ways[way].stop();
      if (way !== "all") continue;
      spent.cpuMs += all.cpuMs() - before.cpuMs;
      spent.wallMs += performance.now() - before.atMs;
    }
  }
  all.goOn();
  const seen = await all.seen();
  return [
    ...rowsOf(found, options.rounds),
    {
      what: "CPU of top, the dashboard and the reader of its page and metrics, together",
      value: (spent.cpuMs / spent.wallMs) * 100,
      unit: "% of a core",
    },
    { what: "times that its page was read meanwhile", value: seen, unit: "" },
  ];
}

function rowsOf(found: Readonly<Record<Way, readonly Figures[]>>, rounds: number): Row[] {
  const figures = (way: Way, figure: keyof Figures) => found[way].map((round) => round[figure]);
  const rows: Row[] = [];
  for (const [figure, what] of [
    ["cpuUs", "CPU time of a message of 64 bytes, of writer and reader"],
    ["togetherUs", "time of a message of 64 bytes while writer and reader spin"],
  ] as const) {
    const base = figures("nobody", figure);
    rows.push({ what: `${what}, unwatched, ${rounds} rounds`, value: medianOf(base), unit: "us" });
    for (const [way, words] of [
      ["often", "watched ten times a second"],
      ["all", "with top, its page on a dashboard and metrics"],
    ] as const) {
      const excess = excessOf(base, figures(way, figure));
      rows.push(excessRow(`more of it ${words}`, excess, EXCESS_PERCENT_MAX));
    }
  }
  return rows;
}

/** A writer and a reader, each in a process of its own. */
class Pair {
  readonly #writer = new HelperProcess("channel-rounds");
  readonly #reader = new HelperProcess("channel-rounds");
  readonly #burst: number;

  private constructor(burst: number) {
    this.#burst = burst;
  }

  static async start({ socket }: HubProcess, burst: number): Promise<Pair> {
    const pair = new Pair(burst);
    const name = "watched";
    await pair.#writer.tell("create", { socket, name, slots: burst });
    await pair.#reader.tell("open", { socket, name });
    return pair;
  }

  /** Lets both sides work in turns and at once, again and again until the time is over. */
  async measure(roundMs: number): Promise<Figures> {
    const count = this.#burst;
    const endMs = performance.now() + roundMs;
    let [messages, cpuUs, togetherUs] = [0, 0, 0];
    do {
      for (let burst = 0; burst < BURSTS; burst += 1) {
        const written = await this.#writer.tell<Cost>("write", { count });
        const read = await this.#reader.tell<Cost>("read", { count });
        cpuUs += written.cpuUs + read.cpuUs;
      }
      const [together] = await Promise.all([
        this.#reader.tell<Cost>("read", { count: BURSTS * count }),
        this.#writer.tell<Cost>("write", { count: BURSTS * count }),
      ]);
      togetherUs += together.wallUs;
      messages += BURSTS * count;
    } while (performance.now() < endMs);
    return { cpuUs: cpuUs / messages, togetherUs: togetherUs / messages };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#writer[Symbol.asyncDispose]();
    await this.#reader[Symbol.asyncDispose]();
  }
}
