// The dialog of one object: what is known of it, its values, and its removal.
import { byId, element } from "./elements.js";
import { histogramElement } from "./histogram.js";
import { clearPicture, drawPicture, readPicture } from "./picture.js";
import { sizeWords } from "./tables.js";

const dialog = byId("object");
/** Arrays up to this size are read as a whole without being asked for. */
const READ_AT_ONCE_BYTES = 64 * 2 ** 20;

/** The row of the object in the dialog, and what ends its requests. */
let shown;
/** Ends the requests about the array of a bundle, or the picture, that was chosen before. */
let chosen = new AbortController();
let chosenPicture = new AbortController();

function say(words, isTrouble = false) {
  byId("object-message").textContent = words;
  byId("object-message").classList.toggle("alarm", isTrouble);
}

const readJson = (answer) => answer.json();
const readText = (answer) => answer.text();

/**
 * Resolves with what `read` makes of the answer, or with undefined. Says why there is none, unless
 * it is not wanted any more.
 */
async function ask(path, { row, end }, { signal, method, read = readJson, ...query } = {}) {
  const text = new URLSearchParams({ name: row.name, id: row.id, ...query });
  const ended = signal === undefined ? end.signal : AbortSignal.any([end.signal, signal]);
  try {
    const answer = await fetch(`${path}?${text}`, { signal: ended, method });
    if (answer.ok) {
      const found = await read(answer);
      return ended.aborted ? undefined : found;
    }
    const words = await answer.text();
    if (!ended.aborted) say(words, true);
  } catch {
    if (!ended.aborted) say("The dashboard has ended, or cannot be reached.", true);
  }
  return undefined;
}

/** Either of the two, or none once the object is removed. */
function offer(button) {
  for (const id of ["remove", "sure"]) byId(id).hidden = id !== button;
}

function drawRows(list, rows) {
  const parts = rows.flatMap(([title, text]) => [element("dt", title), element("dd", text)]);
  list.replaceChildren(...parts);
}

export async function openObject(row) {
  shown = { row, end: new AbortController() };
  const asked = shown;
  byId("object-name").textContent = row.name;
  byId("object-what").textContent = `${row.what}, ${sizeWords(row.bytes)}`;
  say("Asking the hub.");
  clear();
  offer("remove");
  dialog.showModal();
  const facts = await ask("object", asked);
  if (facts === undefined) return;
  say("");
  drawRows(byId("object-facts"), facts.rows);
  byId("object-lines").textContent = facts.lines.join("\n");
  drawArrays(facts, asked);
  if (facts.isArray) await showValues(asked, {});
}

function clear() {
  clearPicture();
  byId("values-part").hidden = true;
  for (const id of ["object-facts", "object-lines", "object-arrays", "values", "histogram"])
    byId(id).replaceChildren();
}

function drawArrays({ arrays, arraysLeftOut }, asked) {
  const buttons = arrays.map(({ name, what, size }, array) => {
    const button = element("button");
    button.type = "button";
    button.append(element("b", name), element("span", `${what}, ${size}`));
    button.onclick = () => {
      for (const one of buttons) one.ariaPressed = String(one === button);
      showValues(asked, { array });
    };
    return button;
  });
  byId("object-arrays").replaceChildren(...buttons);
  if (arraysLeftOut > 0)
    byId("object-arrays").append(element("p", `and ${arraysLeftOut} more: cuda-ipc inspect --all`));
}

/** Shows a picture of an array, then its values. */
async function showValues(asked, which) {
  chosen.abort();
  chosen = new AbortController();
  const { signal } = chosen;
  clearPicture();
  byId("values-part").hidden = true;
  await showPicture(asked, which, []);
  const found = await ask("values", asked, { ...which, signal });
  if (found === undefined) return;
  say("");
  byId("values-part").hidden = false;
  drawRows(byId("values"), found.rows);
  byId("values-note").textContent = found.note;
  byId("histogram").replaceChildren(histogramElement(found.histogram));
  const readAll = byId("read-all");
  readAll.hidden = !found.sampled;
  readAll.disabled = false;
  readAll.textContent = `Read all ${sizeWords(found.byteLength)}`;
  readAll.onclick = () => showAllValues(asked, which, signal);
  if (found.sampled && found.byteLength <= READ_AT_ONCE_BYTES)
    await showAllValues(asked, which, signal);
}

async function showAllValues(asked, which, signal) {
  byId("read-all").disabled = true;
  byId("read-all").textContent = "Reading.";
  const found = await ask("values", asked, { ...which, all: 1, signal });
  if (signal.aborted || asked.end.signal.aborted) return;
  byId("read-all").hidden = true;
  if (found === undefined) return;
  drawRows(byId("values"), found.rows);
  byId("values-note").textContent = "Of all elements. The histogram is of a sample.";
}

async function showPicture(asked, which, at) {
  chosenPicture.abort();
  chosenPicture = new AbortController();
  const signal = AbortSignal.any([chosen.signal, chosenPicture.signal]);
  const query = { ...which, at: at.join() };
  const picture = await ask("picture", asked, { ...query, signal, read: readPicture });
  if (picture !== undefined) drawPicture(picture, (index) => showPicture(asked, which, index));
}

/** Tells that objects have ended or lost their name. One of them may be in the dialog. */
export function objectsEnded(ids) {
  if (!dialog.open || !ids.includes(shown.row.id)) return;
  shown.end.abort();
  offer();
  if (byId("object-message").textContent === "")
    say("It has ended, or was removed or replaced.", true);
}

// The other button is elsewhere, so that a double click removes nothing.
byId("remove").onclick = () => offer("sure");
byId("sure").onclick = async () => {
  const asked = shown;
  offer();
  chosen.abort();
  const words = await ask("remove", asked, { method: "POST", read: readText });
  if (words !== undefined) say(words);
  else if (asked === shown) offer("remove");
};
byId("back").onclick = () => dialog.close();
dialog.onclose = () => {
  shown.end.abort();
  clear();
};
