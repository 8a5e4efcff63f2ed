// Who still needs which slots of a channel: a strip for each reader, the oldest message first.
import { element } from "./elements.js";

const STATE_WORDS = {
  free: "needs it no more",
  unreleased: "has not released it",
  claimed: "reads it",
  stream: "has GPU work on it",
};

function strip(states, words, classOf) {
  const made = element("div", "", "strip");
  made.role = "img";
  made.ariaLabel = words;
  made.append(
    ...states.map(({ title, state }, i) => {
      const cell = element("span", "", classOf(state, i));
      cell.title = title;
      return cell;
    }),
  );
  return made;
}

function slotWords({ firstSlot, slots, slotsPerColumn }, column) {
  const first = (firstSlot + column * slotsPerColumn) % slots;
  const count = Math.min(slotsPerColumn, slots - column * slotsPerColumn);
  return count === 1 ? `slot ${first}` : `slots ${first} to ${(first + count - 1) % slots}`;
}

function legend() {
  const made = element("ul", "", "keys");
  for (const [state, words] of [
    ["free", "free"],
    ["unreleased", "not released: being read, or still to be read"],
    ["claimed", "being read, and kept from the writer"],
    ["stream", "released, but a GPU stream still works on it"],
    ["next", "the writer may write it without looking again"],
  ]) {
    const entry = element("li");
    entry.append(element("span", "", `swatch ${state} c0`), words);
    made.append(entry);
  }
  return made;
}

/** The rows, for the readers of the parties. */
export function slotRows(slots, parties) {
  const { columns, slotsPerColumn, writable, readers } = slots;
  const rows = readers.map(({ place, states }) => {
    const { who = `reader ${place}`, colour = 0 } =
      parties.find((one) => one.place === place) ?? {};
    const cells = states.map((state, i) => ({
      state,
      title: `${slotWords(slots, i)}: ${who} ${STATE_WORDS[state]}`,
    }));
    const needed = states.filter((state) => state !== "free").length;
    const words = `${who} needs ${needed} of ${columns}`;
    return [who, strip(cells, words, (state) => `${state} c${colour}`), `${needed}/${columns}`];
  });
  const next = Math.ceil(writable / slotsPerColumn);
  const cells = Array.from({ length: columns }, (_, i) => ({
    state: i < next ? "next" : "free",
    title: `${slotWords(slots, i)}${i < next ? ": the writer may write it now" : ""}`,
  }));
  rows.unshift([
    "writer",
    strip(cells, `the writer may write ${next} of ${columns} now`, String),
    "",
  ]);
  const grid = element("div", "", "slots");
  for (const [who, drawn, count] of rows) {
    const name = element("span", who, "who");
    name.title = who;
    grid.append(name, drawn, element("span", count, "count"));
  }
  const each = slotsPerColumn === 1 ? "" : `, ${slotsPerColumn} slots to a field`;
  const axis = element("div", "", "axis");
  axis.append(element("span", "oldest"), element("span", `newest message${each}`));
  grid.append(element("span"), axis, element("span"));
  return [element("h3", `${slots.slots} slots`), grid, legend()];
}
