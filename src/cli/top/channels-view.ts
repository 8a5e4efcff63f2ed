/** The view of channels: how fast they go, and which reader is behind. */
import type { WatchedChannelState } from "../../watch/snapshot.js";
import { channelRows } from "../channel/channel-text.js";
import { ageWords, plural, sizeWords } from "../terminal/words.js";
import {
  bandwidthWords,
  channelWords,
  perSecondWords,
  processWords,
  type ReadableChannel,
  readerAt,
  writerOf,
} from "./top-words.js";
import type { Detail, Look, View, ViewColumn } from "./view.js";

/** A column that is empty for channels that cannot be read. */
function column(
  facts: Pick<ViewColumn<unknown>, "title" | "rank" | "widthMin">,
  text: (channel: ReadableChannel, look: Look) => string,
  order: (channel: ReadableChannel, look: Look) => number,
  align: "left" | "right" = "right",
): ViewColumn<WatchedChannelState> {
  return {
    ...facts,
    align,
    text: (channel, look) => (channel.unreadable === undefined ? text(channel, look) : "?"),
    order: (channel, look) => (channel.unreadable === undefined ? order(channel, look) : -1),
  };
}

const ratesOf = ({ object }: ReadableChannel, { rates }: Look) => rates?.channels.get(object);
const missedIn = ({ readers }: ReadableChannel) =>
  readers.reduce((sum, { missed }) => sum + missed, 0);
const largestLag = ({ readers }: ReadableChannel) =>
  Math.max(-1, ...readers.map(({ behind }) => behind));

export const channelsView: View<WatchedChannelState> = {
  title: "channels",
  nothing: "There are no channels.",
  sortedBy: 1,
  columns: [
    {
      title: "NAME",
      align: "left",
      rank: 0,
      widthMin: 12,
      text: ({ name }) => channelWords(name),
      order: ({ name }) => channelWords(name),
    },
    column(
      { title: "MSG/S", rank: 0 },
      (channel, look) => perSecondWords(ratesOf(channel, look)?.messages),
      (channel, look) => ratesOf(channel, look)?.messages ?? -1,
    ),
    column(
      { title: "BANDWIDTH", rank: 2 },
      (channel, look) => bandwidthWords(ratesOf(channel, look)),
      (channel, look) => ratesOf(channel, look)?.bytes ?? -1,
    ),
    column({ title: "LAG OF READERS", rank: 1, widthMin: 14 }, lagWords, largestLag, "left"),
    column(
      { title: "DROPPED", rank: 3 },
      ({ dropped }) => String(dropped),
      ({ dropped }) => dropped,
    ),
    column({ title: "MISSED", rank: 4 }, (channel) => String(missedIn(channel)), missedIn),
    column(
      { title: "SENT", rank: 5 },
      ({ committed }) => String(committed),
      ({ committed }) => committed,
    ),
    column(
      { title: "LAST", rank: 6 },
      ({ lastMessageAtMs: at }, { snapshot }) =>
        at === undefined ? "-" : ageWords(snapshot.atMs - at),
      ({ lastMessageAtMs }) => lastMessageAtMs ?? -1,
    ),
    column(
      { title: "WRITER", rank: 7, widthMin: 10 },
      writerWords,
      ({ writers }) => writers,
      "left",
    ),
  ],
  items: ({ snapshot }) => snapshot.channels,
  id: ({ object }) => object,
  details: channelDetails,
};

/** The reader that is furthest behind comes first: `12 viewer.py 4242, 0 log.mjs 4243`. */
function lagWords(channel: ReadableChannel, { objects }: Look): string {
  const { readers } = channel;
  if (readers.length === 0) return "no readers";
  const object = objects.get(channel.object);
  return [...readers]
    .sort((one, other) => other.behind - one.behind)
    .map(({ place, behind }) => {
      const holder = readerAt(object, place);
      return `${behind} ${holder === undefined ? `reader ${place}` : processWords(holder)}`;
    })
    .join(", ");
}

function writerWords({ object, writer }: ReadableChannel, { objects }: Look): string {
  if (writer !== "open") return writer;
  const holder = writerOf(objects.get(object));
  return holder === undefined ? writer : processWords(holder);
}

function channelDetails(channel: WatchedChannelState, look: Look): Detail[] {
  if (channel.unreadable !== undefined)
    return [
      ["name", channel.name],
      ["figures", `unknown: ${channel.unreadable}`],
    ];
  const { name, object, meanBytes, readers } = channel;
  const rates = ratesOf(channel, look);
  const mean = meanBytes === undefined ? "" : `, ${sizeWords(Math.round(meanBytes))} each`;
  const dropped = perSecondWords(rates?.dropped);
  const shared = look.objects.get(object);
  return [
    ["name", name],
    ["rate", `${perSecondWords(rates?.messages)} messages/s${mean}, ${bandwidthWords(rates)}`],
    ["drops", `${dropped}/s`],
    ["sent by", writerWords(channel, look)],
    ...channelRows(channel),
    ...readers.map(({ place, behind, received, missed, asleep, expelled, lossy }): Detail => {
      const holder = readerAt(shared, place);
      const who = holder === undefined ? "" : `${processWords(holder)}: `;
      const pace = perSecondWords(rates?.readers.get(place)?.received);
      const states = [
        expelled ? "expelled" : asleep ? "asleep" : "awake",
        ...(lossy ? ["may be overtaken"] : []),
      ];
      const counts = `${plural(behind, "message")} behind, ${pace}/s, ${received} received`;
      return [`reader ${place}`, `${who}${counts}, ${missed} missed, ${states.join(", ")}`];
    }),
  ];
}
