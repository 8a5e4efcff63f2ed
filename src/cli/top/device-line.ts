/** A line for each device: a bar to scale, and in words who uses its memory. */
import type { WatchedDevice } from "../../watch/snapshot.js";
import type { Line } from "../terminal/full-screen.js";
import { textWidth } from "../terminal/text-width.js";
import { sizeWords } from "../terminal/words.js";
import { freeBytes } from "./devices-view.js";
import { shortDevice } from "./top-words.js";

const BAR_CELLS_MIN = 6;
const BAR_CELLS_MAX = 30;

/** The longest form that fits into the width. */
export function deviceLine(device: WatchedDevice, width: number): Line {
  const title = shortDevice(device.device);
  const { totalBytes, othersBytes, heldBytes } = device;
  const held = `${sizeWords(heldBytes)} hub`;
  if (totalBytes === undefined || othersBytes === undefined)
    return [{ text: `${title}  ${held}, total unknown` }];
  const total = sizeWords(totalBytes);
  const free = sizeWords(freeBytes(device) ?? 0);
  const words = `${held}, ${sizeWords(othersBytes)} others, ${free} free of ${total}`;
  const short = `${title} ${sizeWords(heldBytes)}/${total}`;
  const room = width - textWidth(`${title} [] ${words}`);
  if (room >= BAR_CELLS_MIN) {
    const bar = barOf(device, totalBytes, Math.min(BAR_CELLS_MAX, room));
    return [{ text: `${title} [` }, ...bar, { text: `] ${words}` }];
  }
  const long = `${title} ${words}`;
  return [{ text: textWidth(long) <= width ? long : short }];
}

/** `##==......`: by the hub, by others, free. */
function barOf(
  { heldBytes, usedBytes = 0 }: WatchedDevice,
  totalBytes: number,
  width: number,
): Line {
  const cells = (bytes: number) =>
    Math.min(width, Math.round((bytes / Math.max(1, totalBytes)) * width));
  // Something that is there is seen, however small.
  const held = heldBytes > 0 ? Math.max(1, cells(heldBytes)) : 0;
  const used = Math.max(held, cells(usedBytes));
  return [
    { text: "#".repeat(held), style: "green" },
    { text: "=".repeat(used - held), style: "yellow" },
    { text: ".".repeat(width - used), style: "dim" },
  ];
}
