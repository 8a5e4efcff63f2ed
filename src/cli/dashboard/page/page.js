// The dashboard's page. Text of other processes only ever becomes text nodes and titles.
import { byId, element } from "./elements.js";
import { drawDevices, onChosen } from "./map.js";
import { drawUnpressed } from "./presses.js";
import { ageWords, objects, sizeWords, state, tabs } from "./tables.js";

const ROW_PX = 26;

function hubWords({ answers, reason, socket, successors, sinceMs, nameless }) {
  if (!answers)
    return `The hub does not answer for ${ageWords(sinceMs)}: ${reason}. Shown is what was known.`;
  const next = successors === 0 ? "" : `, after ${successors} restart${successors > 1 ? "s" : ""}`;
  const { objects: count, bytes } = nameless;
  const held = count === 0 ? "" : `, and ${sizeWords(bytes)} held without a name`;
  return `Hub at ${socket}${next}${held}`;
}

function drawHub() {
  const line = byId("hub");
  line.textContent = hubWords(state.hub);
  line.classList.toggle("alarm", !state.hub.answers);
}

function compared(one, other) {
  if (typeof one === "number" && typeof other === "number") return other - one;
  return one < other ? -1 : one > other ? 1 : 0;
}

/** The rows that match the filter, in order. */
function chosenRows(tab) {
  const words = state.filter.toLowerCase();
  const texts = (row) => tab.columns.map(({ text }) => text(row));
  const found = tab
    .rows()
    .filter((row) => words === "" || texts(row).some((text) => text.toLowerCase().includes(words)));
  const { order } = tab.columns[tab.sorted];
  found.sort((one, other) => compared(order(one), order(other)) || compared(one.id, other.id));
  return tab.reversed ? found.reverse() : found;
}

let rows = [];

function drawList() {
  const tab = tabs[state.tab];
  rows = chosenRows(tab);
  byId("nothing").hidden = rows.length > 0;
  byId("nothing").textContent = state.filter === "" ? "There are none." : "None match the filter.";
  drawRows();
}

/** Only the rows in sight are elements. Spaces stand for the others. */
function drawRows() {
  const { columns } = tabs[state.tab];
  const list = byId("list");
  const first = Math.max(0, Math.floor(list.scrollTop / ROW_PX) - 5);
  const last = Math.min(rows.length, first + Math.ceil(list.clientHeight / ROW_PX) + 10);
  const lines = rows.slice(first, last).map((row) => {
    const line = element("tr");
    line.dataset.id = row.id;
    line.tabIndex = 0;
    for (const { text } of columns) {
      const cell = element("td", text(row));
      cell.title = cell.textContent;
      line.append(cell);
    }
    return line;
  });
  const focused = byId("rows").contains(document.activeElement)
    ? document.activeElement.dataset.id
    : undefined;
  byId("rows").replaceChildren(space(first), ...lines, space(rows.length - last));
  if (focused !== undefined) lines.find(({ dataset }) => dataset.id === focused)?.focus();
}

function space(count) {
  const line = element("tr");
  const cell = element("td", "", "space");
  cell.style.height = `${Math.max(0, count) * ROW_PX}px`;
  line.append(cell);
  return line;
}

function drawTitles() {
  const tab = tabs[state.tab];
  const titles = tab.columns.map(({ title, isNumber }, i) => {
    const cell = element("th");
    const button = element("button", title);
    button.onclick = () => {
      tab.reversed = tab.sorted === i && !tab.reversed;
      tab.sorted = i;
      drawTitles();
      drawList();
    };
    if (tab.sorted === i) cell.ariaSort = isNumber === tab.reversed ? "ascending" : "descending";
    cell.append(button);
    return cell;
  });
  byId("titles").replaceChildren(...titles);
}

const tabButtons = Object.keys(tabs).map((key, i) => {
  const button = element("button");
  button.title = `Key ${i + 1}`;
  button.onclick = () => choose(key);
  return button;
});

function drawTabs() {
  // Once, because a button that is inserted again loses the focus.
  if (!tabButtons[0].isConnected) byId("tabs").replaceChildren(...tabButtons);
  Object.entries(tabs).forEach(([key, tab], i) => {
    tabButtons[i].textContent = `${tab.title} ${tab.rows().length}`;
    tabButtons[i].ariaPressed = String(key === state.tab);
  });
}

function choose(tab) {
  state.tab = tab;
  byId("list").scrollTop = 0;
  drawTitles();
  drawTabs();
  drawList();
}

/** Lists the objects by size, from this one on. */
function showFrom(row) {
  Object.assign(tabs.objects, { sorted: 1, reversed: false });
  state.filter = "";
  byId("filter").value = "";
  choose("objects");
  byId("list").scrollTop = ROW_PX * rows.findIndex(({ id }) => id === row.id);
}

let isDrawn = true;
/** Whether objects changed since the maps were drawn. */
let isChanged = true;
/** Whether all events of the latest look are here. */
let isWhole = false;

function drawSoon() {
  if (!isDrawn) return;
  isDrawn = false;
  requestAnimationFrame(() => drawUnpressed(drawAll));
}

function drawAll() {
  isDrawn = true;
  drawHub();
  drawDevices(isChanged && isWhole);
  if (isWhole) isChanged = false;
  drawTabs();
  drawList();
  dialogsLoading ??= loadDialogs();
}

/** The module with the dialogs, once it is here. */
let dialogs;
/** Resolves with it. WHY after the first rows: they would wait for files that they do not need. */
let dialogsLoading;

async function loadDialogs() {
  dialogs = await import("./dialogs.js");
  return dialogs;
}

async function openDialog(kind, row) {
  const { openDetail, openObject } = await dialogsLoading;
  if (kind === "object" && !row.nameless) openObject(row);
  else openDetail(kind, row.id);
}

const events = new EventSource("events");
events.onmessage = ({ data }) => {
  const { objects: changed, gone = [], more, ...rest } = JSON.parse(data);
  for (const id of gone) objects.delete(id);
  for (const row of changed) objects.set(row.id, row);
  Object.assign(state, rest);
  isChanged ||= changed.length > 0 || gone.length > 0;
  isWhole = !more;
  const unnamed = changed.filter(({ nameless }) => nameless).map(({ id }) => id);
  dialogs?.objectsEnded([...gone, ...unnamed]);
  // WHY not each event: ten drawings while 10,000 objects arrive would delay the last of them.
  if (isWhole || rest.hub !== undefined) drawSoon();
  dialogs?.refreshDetail();
};
events.onopen = () => {
  objects.clear();
  isChanged = true;
};
events.onerror = () => {
  byId("hub").textContent = "The dashboard has ended, or cannot be reached. This page tries again.";
  byId("hub").classList.add("alarm");
};

byId("filter").oninput = ({ target }) => {
  state.filter = target.value;
  drawList();
};
function openRow({ target }) {
  const id = target.closest("tr")?.dataset.id;
  const row = rows.find((one) => String(one.id) === id);
  if (row !== undefined) openDialog(tabs[state.tab].kind, row);
}

byId("rows").onclick = openRow;
byId("rows").onkeydown = (event) => {
  if (event.key !== "Enter") return;
  // Without this the key would also press the dialog's button.
  event.preventDefault();
  openRow(event);
};
byId("list").onscroll = drawRows;
window.onresize = drawRows;
window.onkeydown = (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") byId("filter").blur();
  if (event.target === byId("filter") || document.querySelector("dialog[open]")) return;
  const tab = Object.keys(tabs)[Number(event.key) - 1];
  if (tab !== undefined) choose(tab);
  if (event.key !== "/") return;
  event.preventDefault();
  byId("filter").focus();
};
onChosen((row) => openDialog("object", row), showFrom);
drawTitles();
