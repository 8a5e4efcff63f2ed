/** The view of services: requests under way, answers a second, and how long they take. */
import type { WatchedService } from "../../watch/snapshot.js";
import { durationWords, plural } from "../terminal/words.js";
import { perSecondWords } from "./top-words.js";
import type { Detail, Look, View, ViewColumn } from "./view.js";

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
    ["workers", String(workers)],
    ["links", `${links}, each of one client to one worker`],
    ["offers", `${offers} that no client has taken`],
  ];
}
