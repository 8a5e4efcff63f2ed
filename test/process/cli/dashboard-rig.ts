/** Runs `cuda-ipc dashboard` and a real browser. */
import { existsSync } from "node:fs";
import { type Browser, chromium, type Locator, type Page } from "playwright-core";
import { type CliRig, eventually } from "./cli-rig.js";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const isMissing = !existsSync(CHROMIUM);
if (isMissing && process.env.REQUIRE_CHROMIUM === "1") throw new Error(`There is no ${CHROMIUM}`);

/** Why tests with a browser are skipped; false if they are not. */
export const withoutBrowser = isMissing ? `there is no ${CHROMIUM}` : false;

/** Starts `cuda-ipc dashboard`. */
export async function served(rig: CliRig, ...options: string[]) {
  const started = rig.start("dashboard", ...options);
  let text = "";
  started.child.stdout?.on("data", (piece) => {
    text += piece;
  });
  const url = await eventually("it listens", () => /^The dashboard is at (\S+)$/m.exec(text)?.[1]);
  return { ...started, url };
}

export function launch(): Promise<Browser> {
  const args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
  return chromium.launch({ executablePath: CHROMIUM, args });
}

/** Waits until the page shows this. If it does not, the error has what it shows instead. */
export async function shown(page: Page, wanted: Locator): Promise<void> {
  try {
    await wanted.waitFor();
  } catch (cause) {
    const text = await page.locator("body").textContent();
    throw new Error(`${wanted} is not shown by the page, which says: ${text}`, { cause });
  }
}

/** Gathers the errors of a page, also what its content security policy has refused. */
export function problemsOf(page: Page): string[] {
  const problems: string[] = [];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (line) => line.type() === "error" && problems.push(line.text()));
  return problems;
}
