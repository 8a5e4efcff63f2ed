/** The view of services: requests under way, answers a second, and how long they take. */
import type { WatchedService } from "../../watch/snapshot.js";
import { durationWords, plural } from "../terminal/words.js";
import { type Holder, perSecondWords, processWords, writerOf } from "./top-words.js";
import type { Detail, Look, View, ViewColumn } from "./view.js";

/** Of the workers or clients of a service. */
const NAMED_MAX = 8;

function count(
  title: string,
  rank: number,
  of: (service: WatchedService) => number,
): ViewColumn<WatchedService> {
  return { title, align: "right", rank, text: (service) => String(of(service)), order: of };
}

const answersOf = ({ name }: WatchedService, { rates }: Look) => rates?.services.get(name)?.answers;

export const servicesView: View<WatchedService> = {
  title: "services",
  nothing: "There are no services.",
  sortedBy: 2,
  columns: [
    {
      title: "SERVICE",
      align: "left",
      rank: 0,
      widthMin: 8,
      text: ({ name }) => name,
      order: ({ name }) => name,
    },
    count("UNDER WAY", 1, ({ underWay }) => underWay),
    {
      title: "ANSWERS/S",
      align: "right",
      rank: 0,
      text: (service, look) => perSecondWords(answersOf(service, look)),
      order: (service, look) => answersOf(service, look) ?? -1,
    },
    {
      title: "LATENCY",
      align: "right",
      rank: 2,
      text: ({ latency }) => (latency === undefined ? "-" : durationWords(latency.medianMs)),
      order: ({ latency }) => latency?.medianMs ?? -1,
    },
    {
      title: "SLOWEST",
      align: "right",
      rank: 3,
      text: ({ latency }) => (latency === undefined ? "-" : durationWords(latency.maxMs)),
      order: ({ latency }) => latency?.maxMs ?? -1,
    },
    count("WORKERS", 4, ({ workers }) => workers),
    count("LINKS", 5, ({ links }) => links),
    count("OFFERS", 6, ({ offers }) => offers),
    count("ANSWERED", 7, ({ answered }) => answered),
  ],
  items: ({ snapshot }) => snapshot.services,
  id: ({ name }) => name,
  details: serviceDetails,
};

function serviceDetails(service: WatchedService, look: Look): Detail[] {
  const { name, workers, links, offers, underWay, answered, latency } = service;
  const parties = servicePartiesOf(service, look);
  return [
    ["service", name],
    ["under way", plural(underWay, "request")],
    ["rate", `${perSecondWords(answersOf(service, look))} answers/s, ${answered} so far`],
    [
      "latency",
      latency === undefined
        ? "unknown: no answer is among the latest messages"
        : `median ${durationWords(latency.medianMs)}, slowest ${durationWords(latency.maxMs)}, ` +
          `of the latest ${plural(latency.count, "answer")}`,
    ],
    ["workers", `${workers}${namesOf(parties.workers)}`],
    ["clients", `${parties.clients.length}${namesOf(parties.clients)}`],
    ["links", `${links}, each of one client to one worker`],
    ["offers", `${offers} that no client has taken`],
  ];
}

/** The processes that take part, each once: workers write replies, and clients read them. */
export function servicePartiesOf(
  { replyChannels, offerChannels }: WatchedService,
  { objects }: Look,
): { readonly workers: readonly Holder[]; readonly clients: readonly Holder[] } {
  const channels = [...replyChannels, ...offerChannels].flatMap((id) => objects.get(id) ?? []);
  const readers = channels.flatMap(({ holders }) =>
    holders.filter(({ role }) => role === "reader"),
  );
  return { workers: once(channels.flatMap((one) => writerOf(one) ?? [])), clients: once(readers) };
}

function once(holders: readonly Holder[]): Holder[] {
  return [...new Map(holders.map((holder) => [holder.session, holder])).values()];
}

/** `: a.mjs 41, b.py 42, 3 more` */
function namesOf(holders: readonly Holder[]): string {
  if (holders.length === 0) return "";
  const more = holders.length - NAMED_MAX;
  const names = holders.slice(0, NAMED_MAX).map(processWords);
  return `: ${[...names, ...(more > 0 ? [`${more} more`] : [])].join(", ")}`;
}
