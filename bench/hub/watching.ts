/**
 * Measures the cost of watching: the hub's CPU time while 10,000 objects are watched every second,
 * and the throughput of a channel that is watched ten times a second, or in all ways at once.
 */
import { setTimeout as sleep } from "node:timers/promises";
import {
  comparedWith,
  figureOf,
  measureInTurns,
  type Outcome,
  valueFrom,
} from "../channel/in-turns.js";
import { throughChannel } from "../channel/programs.js";
import type { Row } from "../measure.js";
import { HelperProcess } from "./helper-process.js";
import { HubProcess } from "./hub-process.js";
import { cpuMs } from "./process-facts.js";

export interface WatchingOptions {
  readonly objects: number;
  readonly clients: number;
  readonly watchedMs: number;
  readonly messages: number;
  readonly rounds: number;
}

const FULL_SCALE: WatchingOptions = {
  objects: 10_000,
  clients: 50,
  watchedMs: 10_000,
  messages: 10_000_000,
  rounds: 9,
};

const CPU_GOAL_PERCENT = 5;
const SLOWDOWN_MAX = 1.01;
const OFTEN_MS = 100;

export async function watching(options: WatchingOptions = FULL_SCALE): Promise<Row[]> {
  return [...(await cpuRows(options)), ...(await channelRows(options))];
}

/** One watcher stands for top, three for top, a dashboard and a second top. */
async function cpuRows({ objects, clients, watchedMs }: WatchingOptions): Promise<Row[]> {
  await using hub = await HubProcess.start();
  await using crowd = new HelperProcess("crowd");
  const order = { clients, objectsEach: objects / clients, byteLength: 4096, first: 0 };
  await crowd.tell("join", { socket: hub.socket, ...order });
  const rows: Row[] = [];
  await using first = await watcher(hub, 1000);
  const one = await sharesOfCore(hub, first, watchedMs);
  await using exporter = new HelperProcess("exporter");
  const url = await exporter.tell<string>("begin", { socket: hub.socket });
  const scraped = await scrapedRows(hub, exporter, { url, watchedMs, objects });
  await using second = await watcher(hub, 1000);
  await using third = await watcher(hub, 1000);
  await second.tell("looks");
  const three = await sharesOfCore(hub, third, watchedMs);
  const goal = { goal: `under ${CPU_GOAL_PERCENT} % of a core` };
  const scale = `${objects} objects, ${clients} clients, watched every second`;
  for (const [by, { hubPercent }] of [
    ["one watcher", one],
    ["three watchers", three],
  ] as const) {
    const met = hubPercent < CPU_GOAL_PERCENT;
    rows.push({
      what: `CPU of the hub, ${scale} by ${by}`,
      value: hubPercent,
      unit: "%",
      ...goal,
      met,
    });
  }
  rows.push({ what: "CPU of a watcher", value: one.watcherPercent, unit: "%" });
  return [...rows, ...scraped];
}

/** While a watcher stands for top, and metrics are scraped every second. */
async function scrapedRows(
  hub: HubProcess,
  exporter: HelperProcess,
  { url, watchedMs, objects }: { url: string; watchedMs: number; objects: number },
): Promise<Row[]> {
  const scrapes: { readonly ms: number; readonly bytes: number }[] = [];
  const scrape = async () => {
    const startMs = performance.now();
    const bytes = (await (await fetch(url)).arrayBuffer()).byteLength;
    scrapes.push({ ms: performance.now() - startMs, bytes });
  };
  // The first scrape joins the hub and lists everything.
  await scrape();
  const timer = setInterval(() => void scrape(), 1000);
  const { hubPercent, watcherPercent } = await sharesOfCore(hub, exporter, watchedMs);
  clearInterval(timer);
  await scrape();
  const [first, ...later] = scrapes;
  const sorted = later.map(({ ms }) => ms).sort((one, other) => one - other);
  const of = `of ${objects} objects`;
  return [
    {
      what: `CPU of the hub, ${objects} objects, watched and scraped every second`,
      value: hubPercent,
      unit: "%",
      goal: `under ${CPU_GOAL_PERCENT} % of a core`,
      met: hubPercent < CPU_GOAL_PERCENT,
    },
    { what: "CPU of the process that serves metrics", value: watcherPercent, unit: "%" },
    { what: `a scrape ${of}, median`, value: sorted[sorted.length >> 1] ?? 0, unit: "ms" },
    { what: `the first scrape ${of}`, value: first?.ms ?? 0, unit: "ms" },
    { what: `the text of a scrape ${of}`, value: (later[0]?.bytes ?? 0) / 1024, unit: "KiB" },
  ];
}

/** Resolves once it has looked, because the first look lists everything. */
async function watcher(hub: HubProcess, intervalMs: number): Promise<HelperProcess> {
  const process = new HelperProcess("watcher");
  await process.tell("begin", { socket: hub.socket, intervalMs });
  while ((await process.tell<number>("looks").catch(() => 0)) === 0) await sleep(10);
  return process;
}

async function sharesOfCore(hub: HubProcess, watching: HelperProcess, watchedMs: number) {
  // The first looks of the watchers cause later work, mostly garbage collection.
  await sleep(Math.min(2000, watchedMs));
  const before = { hub: cpuMs(hub.pid), watcher: cpuMs(watching.pid) };
  const startMs = performance.now();
  await sleep(watchedMs);
  const percent = 100 / (performance.now() - startMs);
  return {
    hubPercent: (cpuMs(hub.pid) - before.hub) * percent,
    watcherPercent: (cpuMs(watching.pid) - before.watcher) * percent,
  };
}

async function channelRows({ messages, rounds }: WatchingOptions): Promise<Row[]> {
  await using hub = await HubProcess.start();
  const options = { device: "host", iterations: messages };
  const channel = throughChannel("channel-throughput", hub, options);
  let seen = 0;
  const found = await measureInTurns(
    {
      plain: channel,
      often: { ...channel, meanwhile: () => watcher(hub, OFTEN_MS) },
      all: {
        ...channel,
        meanwhile: async () => {
          const all = await AllWatchers.start(hub);
          return {
            async [Symbol.asyncDispose]() {
              seen += await all.close();
            },
          };
        },
      },
    },
    { rounds, by: "mean" },
  );
  const mean = (times: { readonly mean: number }) => times.mean;
  const plain = figureOf(found.plain, mean);
  const what = "a message of 64 bytes through a channel";
  const watched = (how: string, outcome: Outcome): Row => {
    const ratio = figureOf(outcome, mean) / plain;
    return {
      what: `${what} ${how}`,
      ...valueFrom(outcome, mean),
      unit: "us",
      ...comparedWith("that", ratio),
      goal: "less than 1 % slower",
      met: ratio < SLOWDOWN_MAX,
    };
  };
  return [
    { what: `${what} that nobody watches`, ...valueFrom(found.plain, mean), unit: "us" },
    watched("that is watched ten times a second", found.often),
    watched("with top, its page on a dashboard and metrics", found.all),
    { what: "times that its page was read meanwhile", value: seen, unit: "" },
  ];
}

/** A watcher that stands for top, a dashboard with an open page, and scrapes of its metrics. */
class AllWatchers {
  readonly #top: HelperProcess;
  readonly #dashboard: HelperProcess;
  readonly #page: HelperProcess;

  private constructor(top: HelperProcess, dashboard: HelperProcess, page: HelperProcess) {
    this.#top = top;
    this.#dashboard = dashboard;
    this.#page = page;
  }

  static async start(hub: HubProcess): Promise<AllWatchers> {
    const top = await watcher(hub, 1000);
    const [dashboard, page] = [new HelperProcess("dashboard"), new HelperProcess("page")];
    const url = await dashboard.tell<string>("begin", { socket: hub.socket });
    await page.tell("begin", { url });
    while ((await page.tell<{ scrapes: number }>("counts")).scrapes === 0) await sleep(10);
    return new AllWatchers(top, dashboard, page);
  }

  /** Returns how often the page of the channel was read. */
  async close(): Promise<number> {
    await using _top = this.#top;
    await using _dashboard = this.#dashboard;
    await using _page = this.#page;
    await this.#top.tell("looks");
    return (await this.#page.tell<{ details: number }>("counts")).details;
  }
}
