/** The dashboard's paths: its page, the events that keep it up to date, and what it may do. */
import { readFileSync } from "node:fs";
import { ownProgram } from "../../base/own-package.js";
import type { WebAccess } from "../../web/web-access.js";
import { textAnswer, type WebHandler } from "../../web/web-messages.js";
import type { LiveFeed } from "./live-feed.js";
import type { ObjectActions } from "./object-actions.js";

const FILES: Readonly<Record<string, { readonly file: string; readonly type: string }>> = {
  "": { file: "index.html", type: "text/html; charset=utf-8" },
  "page.css": { file: "page.css", type: "text/css; charset=utf-8" },
  "object.js": { file: "object.js", type: "text/javascript; charset=utf-8" },
  "tables.js": { file: "tables.js", type: "text/javascript; charset=utf-8" },
  "page.js": { file: "page.js", type: "text/javascript; charset=utf-8" },
};

export function dashboardHandler(
  access: WebAccess,
  feed: LiveFeed,
  actions: ObjectActions,
): WebHandler {
  return async (request) => {
    const path = access.check(request);
    if (typeof path === "object") return path;
    const { method, query, signal } = request;
    if (method === "POST" && path === "remove") return await actions.remove(query, signal);
    if (method === "POST") return textAnswer(405, "Nothing can be posted here.");
    if (path === "object") return await actions.details(query, signal);
    if (path === "events")
      return { type: "text/event-stream", run: (write, signal) => feed.run(write, signal) };
    const found = Object.hasOwn(FILES, path) ? FILES[path] : undefined;
    if (found === undefined) return textAnswer(404, "There is no such page.");
    const from = ownProgram(`cli/dashboard/page/${found.file}`);
    if (from === undefined) return textAnswer(404, "The page is not in this bundle.");
    return { status: 200, type: found.type, body: readFileSync(from) };
  };
}
