/** The dashboard's paths: its page, the events that keep it up to date, and what it may do. */
import { readFileSync } from "node:fs";
import { ownProgram } from "../../base/own-package.js";
import type { WebAccess } from "../../web/web-access.js";
import { textAnswer, type WebAnswer, type WebHandler } from "../../web/web-messages.js";
import { METRICS_PATH } from "../metrics-process.js";
import type { LiveFeed } from "./live-feed.js";
import type { ObjectActions } from "./object-actions.js";

const PAGE = "index.html";
const FILES: ReadonlySet<string> = new Set([
  PAGE,
  "page.css",
  "map.css",
  "object.css",
  "page.js",
  "tables.js",
  "elements.js",
  "map.js",
  "treemap.js",
  "presses.js",
  "object.js",
  "histogram.js",
  "picture.js",
  "charts.js",
  "detail.css",
  "detail.js",
  "dialogs.js",
  "disconnect.js",
  "slots.js",
]);
const TYPES: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
};

const WITHOUT_TOKEN: WebAnswer = {
  ...textAnswer(401, "Send the token of the dashboard's URL as a bearer token."),
  headers: { "WWW-Authenticate": "Bearer" },
};

export function dashboardHandler(
  access: WebAccess,
  feed: LiveFeed,
  actions: ObjectActions,
  metrics: WebHandler,
): WebHandler {
  return async (request) => {
    if (request.path === METRICS_PATH)
      return access.admits(request.bearer) ? await metrics(request) : WITHOUT_TOKEN;
    const path = access.check(request);
    if (typeof path === "object") return path;
    const { method, query, signal } = request;
    if (method === "POST" && path === "remove") return await actions.remove(query, signal);
    if (method === "POST" && path === "disconnect") return await feed.disconnect(query, signal);
    if (method === "POST") return textAnswer(405, "Nothing can be posted here.");
    if (path === "object") return await actions.facts(query, signal);
    if (path === "values") return await actions.values(query, signal);
    if (path === "picture") return await actions.picture(query, signal);
    if (path === "detail") return await feed.detail(query);
    if (path === "events")
      return { type: "text/event-stream", run: (write, signal) => feed.run(write, signal) };
    const file = path === "" ? PAGE : path;
    const type = TYPES[file.split(".").at(-1) ?? ""];
    if (!FILES.has(file) || type === undefined) return textAnswer(404, "There is no such page.");
    const from = ownProgram(`cli/dashboard/page/${file}`);
    if (from === undefined) return textAnswer(404, "The page is not in this bundle.");
    return { status: 200, type, body: readFileSync(from) };
  };
}
