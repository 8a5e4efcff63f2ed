/**
 * The pages of one channel, service, device, client or object without a name, as JSON: facts in the
 * words of `top`, what holds the slots, who takes part, and charts of the last minutes.
 */
import type { SlotUse } from "../../channel/channel-observer.js";
import type { WatchedObject } from "../../watch/snapshot.js";
import { textAnswer, type WebAnswer } from "../../web/web-messages.js";
import { ageWords } from "../terminal/words.js";
import { channelsView } from "../top/channels-view.js";
import { clientsView } from "../top/clients-view.js";
import { devicesView } from "../top/devices-view.js";
import { objectsView } from "../top/objects-view.js";
import { servicePartiesOf, servicesView } from "../top/services-view.js";
import { perSecondWords, processWords, type ReadableChannel, readerAt } from "../top/top-words.js";
import type { Detail, Look } from "../top/view.js";
import type { LookHistory } from "./look-history.js";
import { type Chart, channelCharts, deviceCharts, serviceCharts } from "./recorded-looks.js";

/** Of a strip of slots. More slots share columns. */
const COLUMNS_MAX = 64;
/** A client may hold thousands of objects, and a service may have thousands of clients. */
const FACTS_MAX = 60;
/** The charts of a device are below its facts. */
const DEVICE_FACTS_MAX = 20;
/** Readers with lines in charts, because more colours cannot be told apart. */
const CHARTED_READERS_MAX = 7;

interface DetailPage {
  readonly title: string;
  readonly facts: readonly Detail[];
  readonly parties?: readonly Party[];
  readonly slots?: SlotUse | undefined;
  readonly charts?: readonly Chart[];
  /** A session that may be disconnected. */
  readonly client?: { readonly session: number; readonly words: string };
}

/** A process that takes part in a channel or a service, or holds an object. */
interface Party {
  readonly role: string;
  readonly who: string;
  readonly pid?: number | undefined;
  readonly user?: string | undefined;
  readonly command?: string | undefined;
  /** Of its page. Undefined if it is not known. */
  readonly session?: number | undefined;
  readonly place?: number;
  readonly colour?: number | undefined;
  readonly behind?: number;
  readonly perSecond?: string;
  readonly missed?: number;
  readonly state?: string;
}

export interface DetailSources {
  readonly look: Look;
  readonly history: LookHistory;
  slotUse(channel: number, columnsMax: number): SlotUse | undefined;
}

/** Answers with the page of what `kind` and `id` of the query name. */
export function detailPage(query: URLSearchParams, sources: DetailSources): WebAnswer {
  const kind = query.get("kind") ?? "";
  const page = pages.get(kind)?.(query.get("id") ?? "", sources);
  if (page === undefined) return textAnswer(404, "It is no more.");
  const { look, history } = sources;
  const body = JSON.stringify({
    ...page,
    facts: firstFacts(page.facts, FACTS_MAX),
    hubAnswers: look.snapshot.hub.answers,
    agesMs: history.agesMs(),
  });
  return { status: 200, type: "application/json", body };
}

function firstFacts(facts: readonly Detail[], most: number): readonly Detail[] {
  const left = facts.length - most;
  return left <= 0 ? facts : [...facts.slice(0, most), ["", `and ${left} more`]];
}

type PageOf = (id: string, sources: DetailSources) => DetailPage | undefined;

const pages: ReadonlyMap<string, PageOf> = new Map<string, PageOf>([
  ["channel", channelPage],
  ["service", servicePage],
  ["device", devicePage],
  ["client", clientPage],
  ["object", objectPage],
]);

function servicePage(id: string, { look, history }: DetailSources): DetailPage | undefined {
  const service = look.snapshot.services.find(({ name }) => name === id);
  if (service === undefined) return undefined;
  const facts = servicesView.details(service, look).slice(1);
  const { workers, clients } = servicePartiesOf(service, look);
  const parties = [
    ...workers.map((holder) => ({ role: "worker", ...partyOf(holder, look) })),
    ...clients.map((holder) => ({ role: "client", ...partyOf(holder, look) })),
  ];
  return {
    title: id,
    facts,
    parties: parties.slice(0, FACTS_MAX),
    charts: serviceCharts(history, id),
  };
}

function devicePage(id: string, { look, history }: DetailSources): DetailPage | undefined {
  const device = look.snapshot.devices.find((one) => one.device === id);
  if (device === undefined) return undefined;
  const facts = firstFacts(devicesView.details(device, look).slice(1), DEVICE_FACTS_MAX);
  return { title: device.device, facts, charts: deviceCharts(history, id) };
}

function clientPage(id: string, { look }: DetailSources): DetailPage | undefined {
  const client = look.snapshot.clients.find(({ session }) => String(session) === id);
  if (client === undefined) return undefined;
  const words = processWords(client);
  const facts = clientsView.details(client, look);
  return { title: words, facts, client: { session: client.session, words } };
}

/** An object with a name has a page that inspects it instead. */
function objectPage(id: string, { look }: DetailSources): DetailPage | undefined {
  const object = look.objects.get(Number(id));
  if (object === undefined) return undefined;
  const [[, title] = ["", ""], ...facts] = objectsView.details(object, look);
  // The page has a table of holders.
  const holders = facts.findIndex(([name]) => name === "held by");
  const parties = object.holders.slice(0, FACTS_MAX).map((holder) => {
    const since = `since ${ageWords(look.snapshot.atMs - holder.sinceMs)}`;
    return { role: holder.role ?? holder.access, ...partyOf(holder, look), state: since };
  });
  return { title, facts: facts.slice(0, holders), parties };
}

function channelPage(id: string, sources: DetailSources): DetailPage | undefined {
  const { look, history } = sources;
  const channel = look.snapshot.channels.find(({ object }) => String(object) === id);
  if (channel === undefined) return undefined;
  const { name, object } = channel;
  const shared = look.objects.get(object);
  // The page has a table of readers, and its name as the title.
  const facts = channelsView
    .details(channel, look)
    .filter(([title]) => title !== "name" && !title.startsWith("reader "));
  if (channel.unreadable !== undefined) return { title: name, facts };
  const readers = readersOf(channel, shared, look);
  const charted = readers.flatMap(({ place, colour, session, who }) =>
    colour === undefined || place === undefined ? [] : [{ place, session, label: who, colour }],
  );
  return {
    title: name,
    facts,
    parties: [...writersOf(channel, shared, look), ...readers],
    slots: sources.slotUse(object, COLUMNS_MAX),
    charts: channelCharts(history, object, charted),
  };
}

function writersOf(
  { writer }: ReadableChannel,
  object: WatchedObject | undefined,
  look: Look,
): Party[] {
  const holder = object?.holders.find(
    ({ role, access }) => role === "writer" || access === "owner",
  );
  if (writer !== "open" || holder === undefined) return [];
  return [{ role: "writer", ...partyOf(holder, look) }];
}

function readersOf(
  channel: ReadableChannel,
  object: WatchedObject | undefined,
  look: Look,
): Party[] {
  const rates = look.rates?.channels.get(channel.object)?.readers;
  return channel.readers.map(({ place, behind, missed, asleep, expelled, lossy }, i) => {
    const holder = readerAt(object, place);
    const states = [
      expelled ? "expelled" : asleep ? "waits for a message" : "awake",
      ...(lossy ? ["may be overtaken"] : []),
    ];
    return {
      role: `reader ${place}`,
      ...(holder === undefined ? { who: `reader ${place}` } : partyOf(holder, look)),
      place,
      colour: i < CHARTED_READERS_MAX ? i : undefined,
      behind,
      perSecond: perSecondWords(rates?.get(place)?.received),
      missed,
      state: states.join(", "),
    };
  });
}

function partyOf(holder: WatchedObject["holders"][number], { snapshot }: Look) {
  const client = snapshot.clients.find(({ session }) => session === holder.session);
  return {
    who: processWords(holder),
    pid: holder.pid === 0 ? undefined : holder.pid,
    session: holder.session,
    user: client === undefined ? undefined : (client.user ?? `user ${client.uid}`),
    command: client?.command,
  };
}
