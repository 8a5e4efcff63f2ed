/**
 * What open pages are sent: all that is shared, then once a second what has changed. All pages
 * share one look at the hub. After the first look nobody looks while no page is open.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { printable, UNPRINTABLE } from "../../base/printable.js";
import type { HubWatch } from "../../watch/hub-watch.js";
import { ratesBetween } from "../../watch/rates.js";
import type { WatchedObject } from "../../watch/snapshot.js";
import type { WebAnswer } from "../../web/web-messages.js";
import { type Look, lookAt } from "../top/view.js";
import { disconnectClient } from "./client-actions.js";
import { detailPage } from "./detail-pages.js";
import { LookHistory } from "./look-history.js";
import { channelRow, clientRow, objectRow, serviceRows } from "./page-rows.js";
import { recordLook } from "./recorded-looks.js";

const INTERVAL_MS = 1000;
const LOOK_MS_MAX = 2000;
/** WHY: the mean since the last page was closed is no rate of now. */
const RATE_MS_MAX = 5000;
/** A page that has just been opened shows a look of this age until the next one is there. */
const OLD_MS_MAX = 10_000;
/** Objects in one event, so that little is buffered. */
const OBJECTS_PER_EVENT = 1000;
/** In the first event of a look: more than the largest screen shows, so that it is drawn early. */
const OBJECTS_FIRST = 200;

export class LiveFeed {
  readonly #watch: HubWatch;
  readonly #signal: AbortSignal;
  readonly #intervalMs: number;
  readonly #history = new LookHistory();
  #look: Look | undefined;
  #looking: Promise<Look> | undefined;

  /**
   * @param signal ends a look that is under way
   * @param intervalMs another than the default is for tests
   */
  constructor(watch: HubWatch, signal: AbortSignal, intervalMs = INTERVAL_MS) {
    this.#watch = watch;
    this.#signal = signal;
    this.#intervalMs = intervalMs;
  }

  /**
   * Looks once. WHY before a page is open: the first look lists everything, and takes longest.
   * Resolves then, or after two seconds: if a hub does not answer, its page says so.
   */
  async begin(): Promise<void> {
    const over = new AbortController();
    const signal = AbortSignal.any([this.#signal, over.signal]);
    const limit = sleep(LOOK_MS_MAX, undefined, { signal });
    // An error of the look comes again in the look of the first page, which reports it.
    await Promise.race([this.#latest(), limit]).catch(() => {});
    over.abort();
    await limit.catch(() => {});
  }

  /** Writes server-sent events until the signal is aborted. @throws what `write` throws */
  async run(write: (text: string) => Promise<void>, signal: AbortSignal): Promise<void> {
    const sent = new Map<number, WatchedObject>();
    let ageMsMax = OLD_MS_MAX;
    while (!signal.aborted) {
      const look = await this.#latest(ageMsMax);
      ageMsMax = this.#intervalMs / 2;
      for (const event of eventsOf(look, sent)) await write(eventText(event));
      await sleep(this.#pauseAfter(look), undefined, { signal }).catch(() => {});
    }
  }

  /** The page of one channel, service, device, client or object. See `detailPage`. */
  async detail(query: URLSearchParams): Promise<WebAnswer> {
    const look = await this.#latest();
    const slotUse = (channel: number, columnsMax: number) =>
      this.#watch.slotUse(channel, columnsMax);
    return detailPage(query, { look, history: this.#history, slotUse });
  }

  /** Ends the session of a client. */
  disconnect(query: URLSearchParams, signal: AbortSignal): Promise<WebAnswer> {
    return disconnectClient(this.#watch, query, signal);
  }

  #latest(ageMsMax = this.#intervalMs / 2): Promise<Look> {
    const ageMs = performance.now() - (this.#look?.snapshot.monotonicMs ?? 0);
    if (this.#look !== undefined && ageMs < ageMsMax) return Promise.resolve(this.#look);
    this.#looking ??= this.#lookOnce().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  async #lookOnce(): Promise<Look> {
    const options = { timeoutMs: LOOK_MS_MAX, signal: this.#signal };
    const snapshot = await this.#watch.snapshot(options);
    const before = this.#look?.snapshot;
    const ageMs = snapshot.monotonicMs - (before?.monotonicMs ?? 0);
    const rates =
      before === undefined || ageMs > RATE_MS_MAX ? undefined : ratesBetween(before, snapshot);
    this.#look = lookAt(snapshot, rates);
    recordLook(this.#history, this.#look);
    return this.#look;
  }

  #pauseAfter({ snapshot, rates }: Look): number {
    if (performance.now() - snapshot.monotonicMs > this.#intervalMs) return 0;
    // Rates need two looks.
    return rates === undefined ? this.#intervalMs * 0.6 : this.#intervalMs;
  }
}

/** JSON in which `printable` changes nothing does not match this. */
const MAY_BE_UNPRINTABLE = new RegExp(`${UNPRINTABLE.source}|\\\\[bfnrtu]`, "u");

/** A server-sent event. Names of programs and the like cannot reverse the text beside them. */
export function eventText(event: object): string {
  const text = JSON.stringify(event);
  // WHY: to look at each string takes several times as long, and nearly none needs it.
  if (!MAY_BE_UNPRINTABLE.test(text)) return `data: ${text}\n\n`;
  const shown = (_: string, value: unknown) =>
    typeof value === "string" ? printable(value) : value;
  return `data: ${JSON.stringify(event, shown)}\n\n`;
}

/**
 * The events that bring a page up to date.
 * @param sent the objects that the page has; changed to what it has after these events
 */
export function* eventsOf(look: Look, sent: Map<number, WatchedObject>) {
  const { snapshot } = look;
  // An object that has not changed is the same one in the next snapshot.
  const changed = [...look.objects.values()].filter((it) => sent.get(it.object) !== it);
  // A page that has nothing yet shows the first event, so that has the first rows of its list.
  if (sent.size === 0) changed.sort(largestFirst);
  const gone = [...sent.keys()].filter((id) => !look.objects.has(id));
  for (const id of gone) sent.delete(id);
  for (const object of changed) sent.set(object.object, object);
  const { hub, atMs, devices, gpusUnknown } = snapshot;
  const { answers, reason, socket, successors, sinceMs } = hub;
  yield {
    atMs,
    hub: { answers, reason, socket, successors, sinceMs, nameless: bytesOf(snapshot.nameless) },
    devices: devices.map(({ device, model, totalBytes, heldBytes, othersBytes }) => {
      return { device, model, totalBytes, heldBytes, othersBytes };
    }),
    gpusUnknown,
    gone,
    objects: changed.slice(0, OBJECTS_FIRST).map(objectRow),
    channels: snapshot.channels.map((channel) => channelRow(channel, look)),
    clients: snapshot.clients.map(clientRow),
    services: serviceRows(look),
    more: changed.length > OBJECTS_FIRST,
  };
  for (let first = OBJECTS_FIRST; first < changed.length; first += OBJECTS_PER_EVENT) {
    const end = first + OBJECTS_PER_EVENT;
    yield { objects: changed.slice(first, end).map(objectRow), more: end < changed.length };
  }
}

function bytesOf(objects: readonly WatchedObject[]): { objects: number; bytes: number } {
  const bytes = objects.reduce((sum, { heldBytes }) => sum + heldBytes, 0);
  return { objects: objects.length, bytes };
}

/** As the page sorts its list at first. */
function largestFirst(one: WatchedObject, other: WatchedObject): number {
  return other.heldBytes - one.heldBytes || other.object - one.object;
}
