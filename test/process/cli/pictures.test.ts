/**
 * The pictures of `cuda-ipc dashboard` and `cuda-ipc top` in the documents. `npm run docs:pictures`
 * takes them anew, from the real page in a real browser and from a real terminal. Otherwise this
 * checks that they were taken of the page and the screen as they are.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import type { CliRig } from "./cli-rig.js";
import { DashboardPage } from "./dashboard-page.js";
import { fillWorld } from "./filled-world.js";
import { screenSvg } from "./screen-svg.js";
import { TerminalRig } from "./terminal-rig.js";

const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));
const RECORD = join(ROOT, "docs/pictures.json");
const BYTES_MAX = 200_000;
const TAKE = process.env.TAKE_PICTURES === "1";

/** The document that shows each picture. */
const SHOWN_IN = {
  "dashboard.png": "README.md",
  "dashboard-object.png": "docs/watch.md",
  "top.svg": "docs/watch.md",
} as const;

/** The hash of all files of these folders, which make what the pictures show. */
function hashOf(...folders: readonly string[]): string {
  const hash = createHash("sha256");
  for (const folder of folders)
    for (const file of readdirSync(join(ROOT, folder)).sort())
      hash.update(`${file}\0`).update(readFileSync(join(ROOT, folder, file)));
  return hash.digest("hex");
}

const sources = () => ({
  dashboard: hashOf("src/cli/dashboard/page"),
  top: hashOf("src/cli/top"),
});

const path = (name: keyof typeof SHOWN_IN) => join(ROOT, "docs", name);

async function takeDashboard(cli: CliRig): Promise<void> {
  await using light = await DashboardPage.open(cli, { viewport: { width: 1100, height: 620 } });
  await light.page.getByRole("button", { name: /^optimizer, / }).waitFor();
  await light.page.getByText("cache:53", { exact: true }).waitFor();
  await light.page.screenshot({ path: path("dashboard.png") });
  await using dark = await DashboardPage.open(cli, {
    viewport: { width: 1100, height: 700 },
    colorScheme: "dark",
  });
  const { page } = dark;
  await page.locator("#rows").getByText("frame", { exact: true }).click();
  await page.locator("#histogram svg").waitFor();
  await page.screenshot({ path: path("dashboard-object.png") });
  assert.deepEqual([...light.problems, ...dark.problems], []);
}

async function takeTop(rig: TerminalRig): Promise<void> {
  rig.start("top", "--interval", "200ms");
  const text = await rig.shows(/^optimizer .*[\s\S]*^depth /m);
  const title = "cuda-ipc top: devices, objects, channels and clients in a terminal";
  writeFileSync(path("top.svg"), screenSvg(title, text, rig.screen.columns));
  rig.press("q");
  await rig.shows(/^ended 0$/m);
}

describe("the pictures in the documents", () => {
  it("are taken", { skip: TAKE ? false : "only by npm run docs:pictures" }, async () => {
    await using rig = await TerminalRig.open(20, 100);
    await using _ = await fillWorld(rig.cli);
    await takeDashboard(rig.cli);
    await takeTop(rig);
    writeFileSync(RECORD, `${JSON.stringify(sources(), null, 2)}\n`);
  });

  it("show the dashboard and top as they are, are small, and are in the documents", () => {
    assert.deepEqual(
      JSON.parse(readFileSync(RECORD, "utf8")),
      sources(),
      "what the pictures show has changed: look at it, run npm run docs:pictures and commit docs",
    );
    for (const [name, document] of Object.entries(SHOWN_IN)) {
      const { size } = statSync(join(ROOT, "docs", name));
      assert.ok(size > 1000 && size < BYTES_MAX, `${name} has ${size} bytes`);
      assert.match(readFileSync(join(ROOT, document), "utf8"), new RegExp(`\\(\\S*${name}\\)`));
    }
  });
});
