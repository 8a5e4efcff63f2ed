// What the page knows, and the columns of its lists.
export const objects = new Map();
export const state = {
  tab: "objects",
  filter: "",
  channels: [],
  clients: [],
  services: [],
  devices: [],
};

export function sizeWords(bytes) {
  if (bytes === undefined) return "-";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const unit = Math.min(units.length - 1, bytes < 1 ? 0 : Math.floor(Math.log2(bytes) / 10));
  const amount = bytes / 1024 ** unit;
  return `${unit === 0 ? Math.round(amount) : Number(amount.toFixed(1))} ${units[unit]}`;
}

export function ageWords(sinceMs) {
  const seconds = Math.max(0, Math.floor((state.atMs - sinceMs) / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800
    ? `${Math.floor(seconds / 3600)} h`
    : `${Math.floor(seconds / 86_400)} d`;
}

const rate = (perSecond) => (perSecond === undefined ? "-" : `${Number(perSecond.toFixed(1))}`);
const lagOf = ({ readers = [] }) => Math.max(-1, ...readers.map(({ behind }) => behind));

function lagWords({ readers = [], unreadable }) {
  if (unreadable !== undefined) return `unknown: ${unreadable}`;
  if (readers.length === 0) return "no readers";
  const sorted = [...readers].sort((one, other) => other.behind - one.behind);
  return sorted.map(({ who, behind }) => `${behind} ${who}`).join(", ");
}

/**
 * A column: title, text of a row, and the number to sort by, the largest first. Without one it
 * sorts by its text.
 */
const column = (title, text, order) => ({
  title,
  text,
  order: order ?? text,
  isNumber: order !== undefined,
});
const name = column("Name", (row) => row.name);
/** A tab has the kind of page that its rows open. */
export const tabs = {
  objects: {
    title: "Objects",
    kind: "object",
    rows: () => [...objects.values()],
    sorted: 1,
    columns: [
      name,
      column(
        "Size",
        (row) => sizeWords(row.bytes),
        (row) => row.bytes,
      ),
      column("Held by", (row) => row.holders),
      column("Device", (row) => row.device.slice(0, 12)),
      column("What", (row) => row.what),
      column(
        "Age",
        (row) => ageWords(row.createdAtMs),
        (row) => -row.createdAtMs,
      ),
    ],
  },
  channels: {
    title: "Channels",
    kind: "channel",
    rows: () => state.channels,
    sorted: 1,
    columns: [
      name,
      column("Lag of readers", lagWords, lagOf),
      column(
        "Messages/s",
        (row) => rate(row.messages),
        (row) => row.messages ?? -1,
      ),
      column(
        "Bytes/s",
        (row) => sizeWords(row.bytes),
        (row) => row.bytes ?? -1,
      ),
      column(
        "Dropped",
        (row) => String(row.dropped ?? "-"),
        (row) => row.dropped ?? -1,
      ),
      column("Writer", (row) => row.writer ?? "-"),
    ],
  },
  clients: {
    title: "Clients",
    kind: "client",
    rows: () => state.clients,
    sorted: 1,
    columns: [
      column("Program", (row) => row.program),
      column(
        "Created and holds",
        (row) => sizeWords(row.bytes),
        (row) => row.bytes,
      ),
      column(
        "Process",
        (row) => String(row.pid),
        (row) => row.pid,
      ),
      column("User", (row) => row.user),
      column("Language", (row) => row.language ?? "-"),
      column(
        "Leases",
        (row) => String(row.leases),
        (row) => row.leases,
      ),
      column("Connected", (row) => (row.connected ? "yes" : "no")),
      column("Command", (row) => row.command ?? "-"),
    ],
  },
  services: {
    title: "Services",
    kind: "service",
    rows: () => state.services,
    sorted: 2,
    columns: [
      name,
      column(
        "Workers",
        (row) => String(row.workers),
        (row) => row.workers,
      ),
      column(
        "Under way",
        (row) => String(row.underWay),
        (row) => row.underWay,
      ),
      column(
        "Answers/s",
        (row) => rate(row.answers),
        (row) => row.answers ?? -1,
      ),
      column(
        "Median latency",
        (row) => (row.medianMs === undefined ? "-" : `${rate(row.medianMs)} ms`),
        (row) => row.medianMs ?? -1,
      ),
    ],
  },
  devices: {
    title: "Memory",
    kind: "device",
    rows: () => state.devices.map((device) => ({ ...device, id: device.device })),
    sorted: 1,
    columns: [
      column("Device", (row) => row.device),
      ...[
        ["Held by objects", ({ heldBytes }) => heldBytes],
        ["Anything else", ({ othersBytes }) => othersBytes],
        ["Total", ({ totalBytes }) => totalBytes],
      ].map(([title, of]) =>
        column(
          title,
          (row) => sizeWords(of(row)),
          (row) => of(row) ?? -1,
        ),
      ),
      column("Model", (row) => row.model ?? "-"),
    ],
  },
};
for (const tab of Object.values(tabs)) tab.reversed = false;
