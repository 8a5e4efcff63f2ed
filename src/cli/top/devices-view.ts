/** The view of devices: what fills the host's memory and each GPU's. */
import type { WatchedDevice } from "../../watch/snapshot.js";
import { nameWords, sizeWords } from "../terminal/words.js";
import { holdersWords } from "./top-words.js";
import type { Detail, Look, View, ViewColumn } from "./view.js";

function size(
  title: string,
  rank: number,
  of: (device: WatchedDevice) => number | undefined,
): ViewColumn<WatchedDevice> {
  return {
    title,
    align: "right",
    rank,
    text: (device) => knownSize(of(device)),
    order: (device) => of(device) ?? -1,
  };
}

function knownSize(bytes: number | undefined): string {
  return bytes === undefined ? "?" : sizeWords(bytes);
}

export const devicesView: View<WatchedDevice> = {
  title: "devices",
  nothing: "No memory is known.",
  sortedBy: 1,
  columns: [
    {
      title: "DEVICE",
      align: "left",
      rank: 0,
      widthMin: 12,
      text: ({ device }) => device,
      order: ({ device }) => device,
    },
    size("BY HUB", 0, ({ heldBytes }) => heldBytes),
    size("BY OTHERS", 1, ({ othersBytes }) => othersBytes),
    size("FREE", 2, freeBytes),
    size("TOTAL", 3, ({ totalBytes }) => totalBytes),
    {
      title: "MODEL",
      align: "left",
      rank: 4,
      widthMin: 8,
      text: ({ model = "-" }) => model,
      order: ({ model = "-" }) => model,
    },
  ],
  items: ({ snapshot }) => snapshot.devices,
  id: ({ device }) => device,
  details: deviceDetails,
};

export function freeBytes({ totalBytes, usedBytes }: WatchedDevice): number | undefined {
  if (totalBytes === undefined || usedBytes === undefined) return undefined;
  return Math.max(0, totalBytes - usedBytes);
}

function deviceDetails(device: WatchedDevice, { snapshot }: Look): Detail[] {
  const { model, totalBytes, heldBytes, othersBytes, processes } = device;
  const objects = [...snapshot.objects, ...snapshot.nameless]
    .filter((object) => object.device === device.device)
    .sort((one, other) => other.heldBytes - one.heldBytes);
  return [
    ["device", device.device],
    ...(model === undefined ? [] : ([["model", model]] as const)),
    ["total", knownSize(totalBytes)],
    ["free", knownSize(freeBytes(device))],
    ["by others", knownSize(othersBytes)],
    ...processes.map(({ pid, bytes }): Detail => {
      const client = snapshot.clients.find((one) => one.pid === pid);
      const program = client === undefined ? "" : ` (${client.program})`;
      return ["", `process ${pid}${program}: ${knownSize(bytes)}`];
    }),
    ["by the hub", sizeWords(heldBytes)],
    ...objects.map((object): Detail => {
      const { heldBytes } = object;
      return ["", `${nameWords(object)}, ${sizeWords(heldBytes)}, held by ${holdersWords(object)}`];
    }),
  ];
}
