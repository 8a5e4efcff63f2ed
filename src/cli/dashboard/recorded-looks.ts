/** Which figures of a look the dashboard keeps for its charts, and the charts made of them. */
import type { Look } from "../top/view.js";
import type { LookHistory } from "./look-history.js";

export interface Chart {
  readonly title: string;
  /** What the values count, for their words. */
  readonly unit: "bytes" | "bytes/s" | "count" | "per second" | "ms";
  readonly lines: readonly ChartLine[];
}

interface ChartLine {
  readonly label: string;
  /** The number of its colour. */
  readonly colour: number;
  readonly values: readonly (number | null)[];
}

/** A reader of a channel: another process may get the seat later. */
interface ReaderLine {
  readonly place: number;
  readonly session: number | undefined;
  readonly label: string;
  readonly colour: number;
}

/** The page has eight colours. */
const DROPPED_COLOUR = 7;

const readerKey = (channel: number, place: number, session: number | undefined) =>
  `channel ${channel} reader ${place} of ${session}`;

/** What was known before is not recorded again: a hub that does not answer leaves a gap. */
export function recordLook(history: LookHistory, { snapshot, rates, objects }: Look): void {
  history.begin(snapshot.monotonicMs);
  if (!snapshot.hub.answers) return;
  for (const { device, heldBytes, othersBytes } of snapshot.devices) {
    history.put(`device ${device} held`, heldBytes);
    history.put(`device ${device} others`, othersBytes);
  }
  for (const { name, underWay, latency } of snapshot.services) {
    history.put(`service ${name} under way`, underWay);
    history.put(`service ${name} answers`, rates?.services.get(name)?.answers);
    history.put(`service ${name} median`, latency?.medianMs);
    history.put(`service ${name} slowest`, latency?.maxMs);
  }
  for (const channel of snapshot.channels) {
    if (channel.unreadable !== undefined) continue;
    const { object: id, readers } = channel;
    const of = rates?.channels.get(id);
    history.put(`channel ${id} messages`, of?.messages);
    history.put(`channel ${id} bytes`, of?.bytes);
    history.put(`channel ${id} dropped`, of?.dropped);
    const holders = objects.get(id)?.holders ?? [];
    for (const { place, behind } of readers) {
      const session = holders.find((holder) => holder.place === place)?.session;
      const key = readerKey(id, place, session);
      history.put(`${key} behind`, behind);
      history.put(`${key} missed`, of?.readers.get(place)?.missed);
    }
  }
}

export function deviceCharts(history: LookHistory, device: string): Chart[] {
  const line = linesOf(history, `device ${device}`);
  // WHY two: their scales differ a thousandfold.
  return [
    { title: "Held by objects", unit: "bytes", lines: [line("objects", "held", 0)] },
    { title: "Anything else", unit: "bytes", lines: [line("anything else", "others", 1)] },
  ];
}

export function serviceCharts(history: LookHistory, name: string): Chart[] {
  const line = linesOf(history, `service ${name}`);
  return [
    { title: "Requests under way", unit: "count", lines: [line("requests", "under way", 0)] },
    { title: "Answers", unit: "per second", lines: [line("answers", "answers", 0)] },
    {
      title: "Latency",
      unit: "ms",
      lines: [line("median", "median", 0), line("slowest", "slowest", 1)],
    },
  ];
}

export function channelCharts(
  history: LookHistory,
  id: number,
  readers: readonly ReaderLine[],
): Chart[] {
  const line = linesOf(history, `channel ${id}`);
  const ofReaders = (what: string) =>
    readers.map(({ place, session, label, colour }) => ({
      label,
      colour,
      values: history.values(`${readerKey(id, place, session)} ${what}`),
    }));
  const missed = ofReaders("missed");
  return [
    {
      title: "Lag of readers, in messages",
      unit: "count",
      lines: ofReaders("behind"),
    },
    { title: "Messages", unit: "per second", lines: [line("messages", "messages", 0)] },
    { title: "Bandwidth", unit: "bytes/s", lines: [line("bytes", "bytes", 0)] },
    {
      title: "Lost messages",
      unit: "per second",
      lines: [
        { ...line("dropped by the writer", "dropped", 0), colour: DROPPED_COLOUR },
        ...missed.map((one) => ({ ...one, label: `missed by ${one.label}` })),
      ],
    },
  ];
}

function linesOf(history: LookHistory, thing: string) {
  return (label: string, what: string, colour: number): ChartLine => ({
    label,
    colour,
    values: history.values(`${thing} ${what}`),
  });
}
