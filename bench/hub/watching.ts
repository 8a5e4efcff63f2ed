/**
 * Measures the cost of watching: the hub's CPU time while 10,000 objects are watched every second,
 * and what a channel loses that is watched ten times a second, or in all ways at once.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Row } from "../measure.js";
import { HelperProcess } from "./helper-process.js";
import { HubProcess } from "./hub-process.js";
import { cpuMs } from "./process-facts.js";
import { type WatchedChannelOptions, watchedChannel } from "./watched-channel.js";
import { watcher } from "./watchers.js";

export interface WatchingOptions {
  readonly objects: number;
  readonly clients: number;
  readonly watchedMs: number;
  readonly channel: WatchedChannelOptions;
}

const FULL_SCALE: WatchingOptions = {
  objects: 10_000,
  clients: 50,
  watchedMs: 10_000,
  channel: { rounds: 60, roundMs: 1000, burst: 8192 },
};

const CPU_GOAL_PERCENT = 5;

export async function watching(options: WatchingOptions = FULL_SCALE): Promise<Row[]> {
  return [...(await cpuRows(options)), ...(await watchedChannel(options.channel))];
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
