// The dialog of one object: what `cuda-ipc inspect` says, and its removal.
const byId = (id) => document.getElementById(id);
const dialog = byId("object");
const text = byId("object-text");
/** The row of the object in the dialog, and what ends its requests. */
let shown;

/** Shows the answer, unless the dialog was closed. Returns whether it is what was asked for. */
async function ask(path, { row, end }, options) {
  const query = new URLSearchParams({ name: row.name, id: row.id });
  try {
    const answer = await fetch(`${path}?${query}`, { signal: end.signal, ...options });
    const words = await answer.text();
    if (!end.signal.aborted) text.textContent = words;
    return answer.ok;
  } catch {
    if (!end.signal.aborted) text.textContent = "The dashboard has ended, or cannot be reached.";
    return false;
  }
}

/** Either of the two, or none once the object is removed. */
function offer(button) {
  for (const id of ["remove", "sure"]) byId(id).hidden = id !== button;
}

export async function openObject(row) {
  shown = { row, end: new AbortController() };
  byId("object-name").textContent = row.name;
  text.textContent = "Reading its values.";
  offer("remove");
  dialog.showModal();
  await ask("object", shown);
}

// The other button is elsewhere, so that a double click removes nothing.
byId("remove").onclick = () => offer("sure");
byId("sure").onclick = async () => {
  const asked = shown;
  offer();
  const removed = await ask("remove", asked, { method: "POST" });
  if (!removed && asked === shown) offer("remove");
};
byId("back").onclick = () => dialog.close();
dialog.onclose = () => shown.end.abort();
