/** What the dashboard's page shows of a look at a hub, as plain JSON. Names stay as they are. */
import type { WatchedChannelState, WatchedClient, WatchedObject } from "../../watch/snapshot.js";
import { contentWords, nameWords } from "../terminal/words.js";
import { channelWords, holdersWords, processWords, readerAt, writerOf } from "../top/top-words.js";
import type { Look } from "../top/view.js";

export function objectRow(object: WatchedObject) {
  const [oldest] = object.holders;
  return {
    id: object.object,
    name: nameWords(object),
    nameless: object.nameless,
    what: contentWords(object.descriptor),
    device: object.device,
    bytes: object.heldBytes,
    createdAtMs: object.createdAtMs,
    holders: holdersWords(object),
    holder: oldest === undefined ? "nobody" : processWords(oldest),
  };
}

export function channelRow(channel: WatchedChannelState, { rates, objects }: Look) {
  const { object: id } = channel;
  const name = channelWords(channel.name);
  if (channel.unreadable !== undefined) return { id, name, unreadable: channel.unreadable };
  const object = objects.get(id);
  const rate = rates?.channels.get(id);
  const writer = channel.writer === "open" ? writerOf(object) : undefined;
  return {
    id,
    name,
    messages: rate?.messages,
    bytes: rate?.bytes,
    committed: channel.committed,
    dropped: channel.dropped,
    writer: writer === undefined ? channel.writer : processWords(writer),
    readers: channel.readers.map(({ place, behind, missed }) => {
      const holder = readerAt(object, place);
      const who = holder === undefined ? `reader ${place}` : processWords(holder);
      return { who, behind, missed };
    }),
  };
}

export function clientRow(client: WatchedClient) {
  const { session: id, program, pid, uid, user, language, command, connected, leases } = client;
  const bytes = client.hostBytes + client.deviceBytes;
  return {
    id,
    program,
    pid,
    user: user ?? `user ${uid}`,
    language,
    command,
    connected,
    leases,
    bytes,
  };
}

export function serviceRows({ snapshot, rates }: Look) {
  return snapshot.services.map(({ name, workers, links, underWay, latency }) => ({
    id: name,
    name,
    workers,
    links,
    underWay,
    answers: rates?.services.get(name)?.answers,
    medianMs: latency?.medianMs,
  }));
}
