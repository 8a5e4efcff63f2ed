/** One page of the dashboard in a real browser, with all that its console complains about. */
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import type { CliRig } from "./cli-rig.js";
import { launch, problemsOf, served } from "./dashboard-rig.js";

type Served = Awaited<ReturnType<typeof served>>;

export class DashboardPage {
  readonly page: Page;
  readonly problems: string[];
  readonly #browser: Browser;
  readonly #dashboard: Served;

  private constructor(browser: Browser, page: Page, dashboard: Served) {
    this.#browser = browser;
    this.#dashboard = dashboard;
    this.page = page;
    this.problems = problemsOf(page);
  }

  static async open(cli: CliRig, options: BrowserContextOptions = {}): Promise<DashboardPage> {
    const dashboard = await served(cli);
    const browser = await launch();
    const rig = new DashboardPage(browser, await browser.newPage(options), dashboard);
    await rig.page.goto(dashboard.url);
    return rig;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#browser.close();
    this.#dashboard.child.kill("SIGTERM");
    await this.#dashboard.outcome;
  }
}
