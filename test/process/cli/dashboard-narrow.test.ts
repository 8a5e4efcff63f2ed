/** Every page of the dashboard on a phone and on a desk: nothing is cut off or beside the page. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Page } from "playwright-core";
import { connect } from "../../../src/client/connect.js";
import { serve } from "../../../src/service/service.js";
import { connectService } from "../../../src/service/service-client.js";
import { CliRig } from "./cli-rig.js";
import { DashboardPage } from "./dashboard-page.js";
import { withoutBrowser as skip } from "./dashboard-rig.js";
import { fillWorld } from "./filled-world.js";

const LONG = "n".repeat(150);
const KINDS = ["objects", "channels", "clients", "services", "memory"] as const;

/** What is beside the page or cut off without an ellipsis, in the dialog or else on the page. */
const MISFITS = `(() => {
  const found = [];
  const root = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body;
  if (document.documentElement.scrollWidth > innerWidth) found.push("the page scrolls sideways");
  if (root.scrollWidth > root.clientWidth) found.push("the dialog scrolls sideways");
  const scrolls = (style) => /auto|scroll|hidden/.test(style.overflowX);
  const isInScroller = (one) => {
    for (let at = one.parentElement; at !== null && at !== root; at = at.parentElement)
      if (scrolls(getComputedStyle(at))) return true;
    return false;
  };
  for (const one of root.querySelectorAll("*")) {
    const { width, height, left, right } = one.getBoundingClientRect();
    if (width === 0 || height === 0 || one instanceof SVGElement) continue;
    const words = one.tagName + " " + one.className + " " + one.textContent.slice(0, 40);
    if (!isInScroller(one) && (left < -0.5 || right > innerWidth + 0.5)) found.push("beside: " + words);
    const style = getComputedStyle(one);
    const hides = style.overflowX === "hidden" && style.textOverflow !== "ellipsis";
    const isWider = one.scrollWidth > one.clientWidth + 1 && style.display !== "inline";
    if (isWider && (hides || style.overflowX === "visible")) found.push("cut: " + words);
  }
  return found;
})()`;

async function fits(page: Page, what: string): Promise<void> {
  assert.deepEqual(await page.evaluate(MISFITS), [], `${what}, ${page.viewportSize()?.width} px`);
}

/** A hub with all kinds of things, some with long names. */
async function world(cli: CliRig): Promise<AsyncDisposable> {
  const filled = await fillWorld(cli);
  const program = `${LONG.slice(0, 100)}.mjs`;
  const hub = await connect({ socket: cli.socket, device: "host", program });
  // Large enough to be among the rows in sight.
  await hub.put(LONG, new Uint8Array(2 ** 23));
  await hub.createChannel(`${LONG}c`, { dtype: "uint8", shape: [8], slots: 4 });
  await hub.openChannel(`${LONG}c`);
  const four = { dtype: "float32", shape: [4] } as const;
  const echo = async () => ({ meta: "done" });
  const service = await serve(hub, "classify", { request: four, reply: four }, echo);
  const client = connectService(hub, "classify");
  (await client.request((slot) => slot.array.write(new Float32Array(4)))).release();
  return {
    async [Symbol.asyncDispose]() {
      for (const one of [client, service, hub]) await one.close();
      await filled[Symbol.asyncDispose]();
    },
  };
}

describe("the dashboard at any width", { skip }, () => {
  it("has no page that is cut off or scrolls sideways", async () => {
    await using cli = await CliRig.open();
    await using _ = await world(cli);
    await using rig = await DashboardPage.open(cli, { viewport: { width: 390, height: 844 } });
    const { page, problems } = rig;
    const rows = page.locator("#rows tr");
    const dialog = page.getByRole("dialog");
    const close = async () => {
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "hidden" });
    };
    await page.getByRole("button", { name: /^Services 1/ }).waitFor();
    for (const width of [390, 1280]) {
      await page.setViewportSize({ width, height: 844 });
      for (const [i, kind] of KINDS.entries()) {
        await page.keyboard.press(String(i + 1));
        await fits(page, `the list of ${kind}`);
        const names = { objects: ["frame", LONG], channels: ["frames", `${LONG}c`] };
        for (const name of names[kind as keyof typeof names] ?? [/./]) {
          await rows.getByText(name, { exact: true }).first().click();
          await dialog
            .getByText(kind === "objects" ? "special" : /./)
            .first()
            .waitFor();
          if (kind === "channels" || kind === "services")
            await dialog.locator("svg").first().waitFor();
          if (kind === "services") {
            await dialog
              .getByRole("link", { name: `${LONG.slice(0, 100)}.mjs` })
              .first()
              .waitFor();
            for (const title of ["Requests under way", "Answers", "Latency"])
              await dialog.getByRole("figure", { name: title }).waitFor();
          }
          await fits(page, `the page of ${kind}`);
          if (kind === "clients") {
            await dialog.getByRole("button", { name: "Disconnect" }).click();
            await page.getByText("The hub ends its session.").waitFor();
            await fits(page, "the question");
            await page.keyboard.press("Escape");
          }
          await close();
        }
      }
    }
    assert.deepEqual(problems, []);
  });

  it("is found out where something does not fit", async () => {
    await using cli = await CliRig.open();
    await using rig = await DashboardPage.open(cli, { viewport: { width: 390, height: 844 } });
    const { page } = rig;
    await page.getByRole("button", { name: "Objects 0" }).waitFor();
    for (const style of ["width:500px", "width:40px;overflow:hidden;white-space:nowrap"]) {
      await page.evaluate(`{
        const one = document.createElement("p");
        one.id = "spoiled";
        one.textContent = "These are words.";
        one.style.cssText = ${JSON.stringify(style)};
        document.body.append(one);
      }`);
      await assert.rejects(fits(page, "spoiled"), /These are words/, style);
      await page.evaluate("document.getElementById('spoiled').remove()");
    }
    await fits(page, "mended");
  });
});
