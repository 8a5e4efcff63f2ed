/**
 * Opens the dashboard's page as a person does, and measures how soon it answers a key: key 2, which
 * shows the channels, pressed once the list has rows of objects.
 */
import { readdirSync, statSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { Browser, Page } from "playwright-core";

const FILES = new URL("../../src/cli/dashboard/page/", import.meta.url);
const LIMIT_MS = 60_000;
const VIEWPORT = { width: 1280, height: 800 };

export interface PageLoad {
  /** From the request for the URL until rows of objects are in the list. */
  readonly firstRowsMs: number;
  /** From the request for the URL until the list has rows of channels, after a key was pressed. */
  readonly interactiveMs: number;
}

/** WHY a function of the page: a key from outside would wait for the browser's own protocol. */
const PRESS_A_KEY = `{
  const press = (key) => window.dispatchEvent(new KeyboardEvent("keydown", { key }));
  const nowMs = () => performance.timeOrigin + performance.now();
  const firstName = () => document.querySelector("#rows tr[data-id] td")?.textContent;
  const tab = () => document.querySelector("#tabs [aria-pressed=true]").textContent;
  const answer = () => {
    if (!tab().startsWith("Channels") || !firstName()?.startsWith("channel-"))
      return requestAnimationFrame(answer);
    window.interactiveAtMs = nowMs();
    press("1");
  };
  const look = () => {
    if (firstName() === undefined) return requestAnimationFrame(look);
    window.firstRowsAtMs = nowMs();
    press("2");
    requestAnimationFrame(answer);
  };
  look();
}`;

/** Opens the URL in a browser that has no cookie and no file of it. Close the page's context. */
export async function openPage(
  browser: Browser,
  url: string,
): Promise<{ readonly page: Page; readonly load: PageLoad }> {
  const context = await browser.newContext({ viewport: VIEWPORT });
  const page = await context.newPage();
  await page.addInitScript(PRESS_A_KEY);
  const startedAtMs = performance.timeOrigin + performance.now();
  await page.goto(url);
  await becomesTrue(page, "window.interactiveAtMs !== undefined");
  const sinceStart = async (what: string) => Number(await page.evaluate(what)) - startedAtMs;
  const firstRowsMs = await sinceStart("window.firstRowsAtMs");
  return { page, load: { firstRowsMs, interactiveMs: await sinceStart("window.interactiveAtMs") } };
}

/** Waits until the page has all objects. */
export async function hasAll(page: Page, objects: number): Promise<void> {
  // Channels are objects, too.
  const count = `Number(/\\d+/.exec(document.getElementById("tabs").textContent)?.[0])`;
  await becomesTrue(page, `${count} >= ${objects}`);
}

/** The page's document and all files that it can ask for. */
export function pageBytes(): number {
  return readdirSync(FILES).reduce((sum, file) => sum + statSync(new URL(file, FILES)).size, 0);
}

/** WHY not `waitForFunction`: it evaluates text in the page, which the page's policy refuses. */
async function becomesTrue(page: Page, expression: string): Promise<void> {
  const endMs = performance.now() + LIMIT_MS;
  while ((await page.evaluate(expression)) !== true) {
    if (performance.now() > endMs) throw new Error(`not so within ${LIMIT_MS} ms: ${expression}`);
    await sleep(20);
  }
}
