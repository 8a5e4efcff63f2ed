/** The view of clients: which processes use the hub, and what each of them holds. */
import type { WatchedClient, WatchedObject } from "../../watch/snapshot.js";
import { nameWords, plural, sizeWords, userWords } from "../terminal/words.js";
import type { Detail, Look, View } from "./view.js";

export const clientsView: View<WatchedClient> = {
  title: "clients",
  nothing: "There are no other clients.",
  sortedBy: 1,
  columns: [
    {
      title: "PROGRAM",
      align: "left",
      rank: 0,
      widthMin: 12,
      text: ({ program }) => program,
      order: ({ program }) => program,
    },
    {
      title: "HOLDS",
      align: "right",
      rank: 0,
      text: (client, look) => sizeWords(bytesHeldBy(client, look)),
      order: bytesHeldBy,
    },
    { title: "PID", align: "right", rank: 1, text: pidWords, order: ({ pid }) => pid },
    { title: "USER", align: "left", rank: 2, text: clientUser, order: clientUser },
    {
      title: "LANGUAGE",
      align: "left",
      rank: 5,
      text: ({ language = "-" }) => language,
      order: ({ language = "-" }) => language,
    },
    {
      title: "LEASES",
      align: "right",
      rank: 3,
      text: ({ leases }) => String(leases),
      order: ({ leases }) => leases,
    },
    { title: "STATE", align: "left", rank: 6, text: stateWords, order: stateWords },
    {
      title: "COMMAND",
      align: "left",
      rank: 4,
      widthMin: 10,
      text: ({ command = "-" }) => command,
      order: ({ command = "-" }) => command,
    },
  ],
  items: ({ snapshot }) => snapshot.clients,
  id: ({ session }) => session,
  details: clientDetails,
};

function heldObjects({ objects }: WatchedClient, look: Look): WatchedObject[] {
  return objects.flatMap((object) => look.objects.get(object) ?? []);
}

function bytesHeldBy(client: WatchedClient, look: Look): number {
  return heldObjects(client, look).reduce((sum, { heldBytes }) => sum + heldBytes, 0);
}

function pidWords({ pid }: WatchedClient): string {
  return pid === 0 ? "-" : String(pid);
}

function clientUser({ user, uid }: WatchedClient): string {
  return user ?? userWords(uid);
}

function stateWords({ connected, waitingOpens }: WatchedClient): string {
  if (!connected) return "not connected";
  return waitingOpens === 0 ? "connected" : `waits for ${plural(waitingOpens, "open")}`;
}

function clientDetails(client: WatchedClient, look: Look): Detail[] {
  const { program, command = "unknown", language = "unknown", leases } = client;
  const objects = heldObjects(client, look).sort((one, other) => other.heldBytes - one.heldBytes);
  return [
    ["program", program],
    ["command", command],
    ["process", `${pidWords(client)} of ${clientUser(client)}`],
    ["language", language],
    ["state", stateWords(client)],
    ["leases", String(leases)],
    ["holds", `${sizeWords(bytesHeldBy(client, look))} in ${plural(objects.length, "object")}`],
    ...objects.map((object): Detail => {
      return ["", `${nameWords(object)}, ${sizeWords(object.heldBytes)}`];
    }),
  ];
}
