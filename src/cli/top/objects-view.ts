/** The view of objects: who holds what, and how much. */
import { removalOf } from "../../watch/removal.js";
import type { WatchedObject } from "../../watch/snapshot.js";
import { removalWords } from "../terminal/removal-words.js";
import {
  ageWords,
  contentWords,
  lifetimeWords,
  nameWords,
  sharingWords,
  sizeWords,
  userWords,
} from "../terminal/words.js";
import { holdersWords, processWords, shortDevice } from "./top-words.js";
import type { Detail, Look, View } from "./view.js";

export const objectsView: View<WatchedObject> = {
  title: "objects",
  nothing: "Nothing is shared.",
  sortedBy: 1,
  columns: [
    {
      title: "NAME",
      align: "left",
      rank: 0,
      widthMin: 16,
      text: nameWords,
      order: nameWords,
    },
    {
      title: "SIZE",
      align: "right",
      rank: 0,
      text: ({ heldBytes }) => sizeWords(heldBytes),
      order: ({ heldBytes }) => heldBytes,
    },
    {
      title: "DEVICE",
      align: "left",
      rank: 3,
      text: ({ device }) => shortDevice(device),
      order: ({ device }) => device,
    },
    {
      title: "HELD BY",
      align: "left",
      rank: 1,
      widthMin: 16,
      text: holdersWords,
      order: ({ leases }) => leases,
    },
    { title: "OWNER", align: "left", rank: 4, text: ownerWords, order: ownerWords },
    {
      title: "AGE",
      align: "right",
      rank: 2,
      text: ({ createdAtMs }, { snapshot }) => ageWords(snapshot.atMs - createdAtMs),
      order: ({ createdAtMs }, { snapshot }) => snapshot.atMs - createdAtMs,
    },
    {
      title: "LIFETIME",
      align: "left",
      rank: 5,
      text: lifetimeWords,
      order: lifetimeWords,
    },
    {
      title: "WHAT",
      align: "left",
      rank: 6,
      widthMin: 12,
      text: ({ descriptor }) => contentWords(descriptor),
      order: ({ descriptor }) => contentWords(descriptor),
    },
  ],
  items: ({ snapshot }) => [...snapshot.objects, ...snapshot.nameless],
  id: ({ object }) => object,
  details: objectDetails,
};

/** `alice 4242`, or `alice` if the process that created it holds it no more. */
function ownerWords({ ownerUid, ownerPid }: WatchedObject): string {
  const user = userWords(ownerUid);
  return ownerPid === null || ownerPid === 0 ? user : `${user} ${ownerPid}`;
}

function objectDetails(object: WatchedObject, { snapshot }: Look): Detail[] {
  const { descriptor, device, heldBytes, leases, createdAtMs } = object;
  const age = ageWords(snapshot.atMs - createdAtMs);
  return [
    ["name", nameWords(object)],
    ["what", contentWords(descriptor)],
    ["size", `${sizeWords(heldBytes)} on ${device}, by ${descriptor.mechanism}`],
    ["created", `${age} ago by ${ownerWords(object)}`],
    ["lifetime", lifetimeWords(object)],
    ["sharing", sharingWords(object.sharing)],
    ...(object.hasMemory ? [] : ([["memory", "not brought back yet"]] as const)),
    [
      "removal",
      object.nameless ? "when its last holder closes it" : removalWords(removalOf(object)),
    ],
    ["leases", String(leases)],
    ...holderDetails(object, snapshot.atMs),
  ];
}

function holderDetails({ holders, leases }: WatchedObject, nowMs: number): Detail[] {
  if (holders.length === 0) return [["held by", leases === 0 ? "nobody" : "others"]];
  const rows = holders.map((holder, index): Detail => {
    const { role, access, place, sinceMs } = holder;
    const seat = place === undefined ? "" : ` ${place}`;
    const since = `since ${ageWords(nowMs - sinceMs)}`;
    return [
      index === 0 ? "held by" : "",
      `${processWords(holder)}, ${role ?? access}${seat}, ${since}`,
    ];
  });
  const more = leases - holders.length;
  return more > 0 ? [...rows, ["", `and ${more} more`]] : rows;
}
