/**
 * Measures the dashboard's page in a real browser, with 10,000 objects and 100 channels: its bytes,
 * how soon it shows rows and answers a key, its frames while the list is scrolled and filtered, and
 * how long the picture of an array of 4 GiB takes.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { formatBytes } from "../../src/base/bytes.js";
import { connect } from "../../src/index.js";
import type { Row } from "../measure.js";
import { HelperProcess } from "./helper-process.js";
import { HubProcess } from "./hub-process.js";
import { hasAll, openPage, type PageLoad, pageBytes } from "./page-load.js";

export interface PageSpeedOptions {
  readonly objects: number;
  readonly clients: number;
  readonly channels: number;
  /** Pages that are opened one after the other while the dashboard runs. */
  readonly loads: number;
  readonly watchedMs: number;
  /** The array that a picture is made of, in bytes. */
  readonly pictureBytes: number;
}

const FULL_SCALE: PageSpeedOptions = {
  objects: 10_000,
  clients: 50,
  channels: 100,
  loads: 9,
  watchedMs: 10_000,
  pictureBytes: 4 * 1024 ** 3,
};

const PAGE_KB_MAX = 200;
const INTERACTIVE_MS_MAX = 1000;
const PICTURE_MS_MAX = 200;
/** After the first one. */
const PICTURES = 5;
const FRAMES_MIN = 30;

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const LAUNCH = fileURLToPath(new URL("../../src/cli/launch.cjs", import.meta.url));

export async function pageSpeed(options: PageSpeedOptions = FULL_SCALE): Promise<Row[]> {
  const { objects, clients, channels } = options;
  const scale = `${objects} objects and ${channels} channels`;
  if (!existsSync(CHROMIUM))
    return [
      { what: `frames with ${scale}`, value: Number.NaN, unit: "", missing: `no ${CHROMIUM}` },
    ];
  await using hub = await HubProcess.start();
  await using crowd = new HelperProcess("crowd");
  const order = { clients, objectsEach: objects / clients, byteLength: 4096, first: 0 };
  await crowd.tell("join", { socket: hub.socket, ...order });
  await crowd.tell("stream", { channels });
  const args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
  // WHY here: machines with a GPU have no browser, nor this package.
  const { chromium } = await import("playwright-core");
  const browser = await chromium.launch({ executablePath: CHROMIUM, args });
  const dashboard = spawn(process.execPath, [LAUNCH, "dashboard", "--socket", hub.socket], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    const [printed] = await once(dashboard.stdout, "data");
    const url = /http:\S+/.exec(String(printed))?.[0] ?? "";
    const rows: Row[] = [limited("the page and its files", pageBytes() / 1000, "kB", PAGE_KB_MAX)];
    const first = await openPage(browser, url);
    await first.page.context().close();
    const loads: PageLoad[] = [];
    for (let i = 0; i < options.loads; i += 1) {
      const opened = await openPage(browser, url);
      loads.push(opened.load);
      await opened.page.context().close();
    }
    rows.push(...loadRows(first.load, loads, scale));
    const { page } = await openPage(browser, url);
    await hasAll(page, objects);
    for (const [key, tab] of ["objects", "channels"].entries()) {
      await page.keyboard.press(String(key + 1));
      const { perSecond, longestMs } = await frames(page, options.watchedMs);
      const what = `while ${tab} are scrolled and filtered, with ${scale}`;
      const goal = { goal: `at least ${FRAMES_MIN}`, met: perSecond >= FRAMES_MIN };
      rows.push({ what: `frames a second ${what}`, value: perSecond, unit: "", ...goal });
      rows.push({ what: `the longest frame ${what}`, value: longestMs, unit: "ms" });
    }
    return [...rows, ...(await pictures(page, hub, options.pictureBytes))];
  } finally {
    await browser.close();
    dashboard.kill("SIGTERM");
    await once(dashboard, "close");
  }
}

function loadRows(first: PageLoad, loads: readonly PageLoad[], scale: string): Row[] {
  const of = (figure: keyof PageLoad) =>
    loads.map((load) => load[figure]).sort((one, other) => one - other);
  const [rows, keys] = [of("firstRowsMs"), of("interactiveMs")];
  const [fastest, slowest] = [keys.at(0) ?? Number.NaN, keys.at(-1) ?? Number.NaN];
  const median = keys[keys.length >> 1] ?? Number.NaN;
  const spread = `median of ${loads.length} pages (${fastest.toFixed()} to ${slowest.toFixed()})`;
  const key = `until a key works, with ${scale}, ${spread}`;
  return [
    { what: `the first rows, with ${scale}`, value: rows[rows.length >> 1] ?? 0, unit: "ms" },
    limited(key, median, "ms", INTERACTIVE_MS_MAX),
    limited(
      "the same of a page that is opened as soon as the dashboard has printed its URL",
      first.interactiveMs,
      "ms",
      INTERACTIVE_MS_MAX,
    ),
  ];
}

function limited(what: string, value: number, unit: string, max: number): Row {
  return { what, value, unit, goal: `under ${max} ${unit}`, met: value < max };
}

/** From the request to the pixels, as the page of an object does it. */
async function pictures(page: Page, { socket }: HubProcess, bytes: number): Promise<Row[]> {
  await using hub = await connect({ socket, device: "host" });
  const side = Math.sqrt(bytes / Float32Array.BYTES_PER_ELEMENT);
  using array = await hub.create("picture", { dtype: "float32", shape: [side, side] });
  await array.publish();
  const [{ object } = { object: 0 }] = await hub.list({ prefix: "picture" });
  const [first = Number.NaN, ...next] = (await page.evaluate(`(async () => {
    const query = "name=picture&id=${object}";
    await (await fetch("object?" + query)).json();
    const times = [];
    while (times.length <= ${PICTURES}) {
      const startMs = performance.now();
      await createImageBitmap(await (await fetch("picture?" + query)).blob());
      times.push(performance.now() - startMs);
    }
    return times;
  })()`)) as number[];
  const median = next.sort((one, other) => one - other)[next.length >> 1] ?? Number.NaN;
  const size = formatBytes(bytes);
  // Nobody has written this memory, so the first picture also makes the pages that it reads.
  return [
    { what: `a picture of ${size} that nobody has written`, value: first, unit: "ms" },
    limited(`a picture of an array of ${size}`, median, "ms", PICTURE_MS_MAX),
  ];
}

/** Scrolls at each frame, and types in the filter twice a second. */
async function frames(page: Page, watchedMs: number) {
  const times = (await page.evaluate(`new Promise((resolve) => {
    const list = document.getElementById("list");
    const filter = document.getElementById("filter");
    const times = [];
    let typedMs = performance.now();
    const step = (ms) => {
      times.push(ms);
      list.scrollTop = (list.scrollTop + 97) % Math.max(1, list.scrollHeight - list.clientHeight);
      if (ms - typedMs > 500) {
        typedMs = ms;
        filter.value = ["", "1", "ob", "member"][times.length % 4];
        filter.dispatchEvent(new Event("input"));
      }
      if (ms - times[0] < ${watchedMs}) requestAnimationFrame(step);
      else resolve(times);
    };
    requestAnimationFrame(step);
  })`)) as number[];
  const lengths = times.slice(1).map((ms, i) => ms - (times[i] ?? 0));
  const totalMs = (times.at(-1) ?? 0) - (times[0] ?? 0);
  return { perSecond: (lengths.length * 1000) / totalMs, longestMs: Math.max(...lengths) };
}
