// The page of one channel, service, device, client or object without a name, in a dialog. The part
// of the URL after # says which, so the browser's Back works, and a reload shows the same.
import { Charts } from "./charts.js";
import { confirmDisconnect } from "./disconnect.js";
import { element } from "./elements.js";
import { drawUnpressed } from "./presses.js";
import { slotRows } from "./slots.js";

const KINDS = ["channel", "service", "device", "client", "object"];

const dialog = element("dialog", "", "detail");
dialog.id = "detail";
const kindWords = element("span", "", "kind");
const title = element("h2");
title.id = "detail-title";
dialog.setAttribute("aria-labelledby", title.id);
const close = element("button", "Close");
close.type = "button";
close.onclick = () => dialog.close();
const note = element("p", "", "note");
note.role = "status";
const facts = element("dl");
const parties = element("div", "", "parties");
const slots = element("section");
const actions = element("div", "", "actions");
const head = element("header");
head.append(kindWords, title, close);
dialog.append(head, note, facts, actions, parties, slots);
document.body.append(dialog);

/** What the dialog shows: its kind and id, its charts, and what ends its requests. */
let shown;

export function openDetail(kind, id) {
  location.hash = `${kind}=${encodeURIComponent(id)}`;
}

function meant() {
  const [, kind, id] = /^#([a-z]+)=(.+)$/.exec(location.hash) ?? [];
  if (!KINDS.includes(kind)) return undefined;
  try {
    return { kind, id: decodeURIComponent(id) };
  } catch {
    return undefined;
  }
}

function show() {
  shown?.end.abort();
  shown?.charts.element.remove();
  const found = meant();
  shown = undefined;
  if (found === undefined) return dialog.close();
  shown = { ...found, charts: new Charts(), end: new AbortController(), isAsking: false };
  kindWords.textContent = found.kind;
  title.textContent = "";
  note.textContent = "Looking.";
  for (const part of [facts, actions, parties, slots]) part.replaceChildren();
  dialog.append(shown.charts.element);
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  refreshDetail();
}

/** Asks for the page's latest figures, unless an answer is still on its way. */
export async function refreshDetail() {
  const asked = shown;
  if (asked === undefined || asked.isAsking) return;
  asked.isAsking = true;
  const { kind, id, end } = asked;
  try {
    const query = new URLSearchParams({ kind, id });
    const answer = await fetch(`detail?${query}`, { signal: end.signal });
    if (answer.ok) {
      const page = await answer.json();
      drawUnpressed(() => draw(asked, page));
    } else note.textContent = await answer.text();
  } catch {
    if (!end.signal.aborted)
      note.textContent = "The dashboard has ended, or cannot be reached. This page tries again.";
  } finally {
    asked.isAsking = false;
  }
}

function draw(asked, page) {
  if (asked !== shown) return;
  note.textContent = page.hubAnswers ? "" : "The hub does not answer. Shown is what was known.";
  title.textContent = page.title;
  drawFacts(page.facts);
  drawActions(page.client);
  drawParties(page.parties ?? []);
  slots.replaceChildren(...(page.slots === undefined ? [] : slotRows(page.slots, page.parties)));
  asked.charts.update(page.agesMs, page.charts ?? []);
}

/** A fact without a name belongs to the one before. */
function drawFacts(all) {
  const pairs = [];
  for (const [name, text] of all) {
    if (name === "") pairs.at(-1)?.lastChild.append(element("div", text));
    else {
      const pair = element("div");
      const value = element("dd");
      value.append(element("div", text));
      pair.append(element("dt", name), value);
      pairs.push(pair);
    }
  }
  facts.replaceChildren(...pairs);
}

/** WHY not replaced each time: the button may be in focus. */
function drawActions(client) {
  if (client === undefined) return actions.replaceChildren();
  if (actions.dataset.session === String(client.session) && actions.firstChild !== null) return;
  actions.dataset.session = client.session;
  const button = element("button", "Disconnect");
  button.type = "button";
  button.onclick = () => confirmDisconnect(client);
  actions.replaceChildren(button);
}

const COLUMNS = [
  ["Role", ({ role }) => role],
  ["Process", ({ who }) => who],
  ["Lag", ({ behind = "" }) => behind],
  ["Messages/s", ({ perSecond = "" }) => perSecond],
  ["Missed", ({ missed = "" }) => missed],
  ["State", ({ state = "" }) => state],
  ["User", ({ user = "-" }) => user],
  ["Command", ({ command = "-" }) => command],
];

function drawParties(all) {
  if (all.length === 0) return parties.replaceChildren();
  // A link in focus keeps it, although the table is drawn anew.
  const focused = document.activeElement?.closest(".parties a")?.hash;
  const table = element("table");
  const titles = element("tr");
  // Of a service, processes have no lag.
  const columns = COLUMNS.filter(([, text]) => all.some((party) => text(party) !== ""));
  titles.append(...columns.map(([name]) => element("th", name)));
  const [most = 0] = all.map(({ behind = 0 }) => behind).sort((one, other) => other - one);
  const lines = all.map((party) => {
    const line = element("tr", "", most > 0 && party.behind === most ? "slowest" : "");
    for (const [name, text] of columns) line.append(cell(name, String(text(party)), party));
    return line;
  });
  const [thead, tbody] = [element("thead"), element("tbody")];
  thead.append(titles);
  tbody.append(...lines);
  table.append(thead, tbody);
  parties.replaceChildren(table);
  if (focused !== undefined)
    [...parties.querySelectorAll("a")].find(({ hash }) => hash === focused)?.focus();
}

function cell(name, text, { colour, session }) {
  const made = element("td", name === "Process" ? "" : text);
  made.title = text;
  if (name !== "Process") return made;
  if (colour !== undefined) made.append(element("span", "", `swatch c${colour}`));
  if (session === undefined) made.append(text);
  else {
    const link = element("a", text);
    link.href = `#client=${session}`;
    made.append(link);
  }
  return made;
}

dialog.onclose = () => {
  shown?.end.abort();
  shown?.charts.element.remove();
  shown = undefined;
  if (meant() !== undefined) history.replaceState(null, "", location.pathname);
};
window.addEventListener("hashchange", show);
if (meant() !== undefined) show();
