// Asks before a client is disconnected, and says what became of it.
import { element } from "./elements.js";

const dialog = element("dialog", "", "confirm");
dialog.id = "disconnect";
const title = element("h2");
title.id = "disconnect-title";
dialog.setAttribute("aria-labelledby", title.id);
const text = element("p");
text.role = "status";
const sure = element("button", "Disconnect it", "danger");
const back = element("button", "Back");
back.autofocus = true;
for (const button of [sure, back]) button.type = "button";
dialog.append(title, text, back, sure);
document.body.append(dialog);
back.onclick = () => dialog.close();

/** @param client its session, and the words for its process */
export function confirmDisconnect({ session, words }) {
  title.textContent = `Disconnect ${words}?`;
  text.textContent =
    "The hub ends its session and takes back what it holds. Its calls fail with DISCONNECTED. " +
    "The process itself goes on.";
  sure.hidden = false;
  sure.onclick = async () => {
    sure.hidden = true;
    text.textContent = "Asking the hub.";
    try {
      const query = new URLSearchParams({ session });
      text.textContent = await (await fetch(`disconnect?${query}`, { method: "POST" })).text();
    } catch {
      text.textContent = "The dashboard has ended, or cannot be reached.";
    }
  };
  dialog.showModal();
}
