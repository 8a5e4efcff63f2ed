/** The files of the dashboard's page, as its documents and modules name them. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { dashboardHandler } from "../../../../src/cli/dashboard/dashboard-handler.js";
import type { LiveFeed } from "../../../../src/cli/dashboard/live-feed.js";
import type { ObjectActions } from "../../../../src/cli/dashboard/object-actions.js";
import type { WebAccess } from "../../../../src/web/web-access.js";
import { textAnswer, type WebRequest } from "../../../../src/web/web-messages.js";

const FOLDER = new URL("../../../../src/cli/dashboard/page/", import.meta.url);
const textOf = (file: string) => readFileSync(new URL(file, FOLDER), "utf8");

/** The modules that a module imports before it runs, itself included. */
function importedBy(file: string, found = new Set<string>()): Set<string> {
  if (found.has(file)) return found;
  found.add(file);
  for (const [, name = ""] of textOf(file).matchAll(/ from "\.\/([\w-]+\.js)"/g))
    importedBy(name, found);
  return found;
}

describe("the files of the dashboard's page", () => {
  it("are fetched in one step until rows can be shown", () => {
    const html = textOf("index.html");
    const preloaded = [...html.matchAll(/modulepreload" href="([^"]+)"/g)].map(([, name]) => name);
    const needed = [...importedBy("page.js")].filter((name) => name !== "page.js");
    assert.deepEqual(preloaded.toSorted(), needed.toSorted());
  });

  it("are all served, and nothing else is", async () => {
    const access = { check: ({ path }: WebRequest) => path } as unknown as WebAccess;
    const none = {} as unknown;
    const handler = dashboardHandler(access, none as LiveFeed, none as ObjectActions, async () =>
      textAnswer(500, "not asked for"),
    );
    const statusOf = async (path: string) => {
      const answer = await handler({ method: "GET", path } as WebRequest);
      return "status" in answer ? answer.status : 0;
    };
    for (const file of readdirSync(FOLDER)) assert.equal(await statusOf(file), 200, file);
    assert.equal(await statusOf("other.js"), 404);
  });
});
