/** Processes that watch a hub as `top`, the dashboard with an open page, and scrapes do. */
import { setTimeout as sleep } from "node:timers/promises";
import { HelperProcess } from "./helper-process.js";
import type { HubProcess } from "./hub-process.js";
import { cpuMs } from "./process-facts.js";

/** Starts a process that looks at the hub at this interval. Resolves once it has looked. */
export async function watcher(hub: HubProcess, intervalMs: number): Promise<HelperProcess> {
  const process = new HelperProcess("watcher");
  await process.tell("begin", { socket: hub.socket, intervalMs });
  // The first look lists everything.
  while ((await process.tell<number>("looks").catch(() => 0)) === 0) await sleep(10);
  return process;
}

/** Processes that watch together. They can be stopped and go on later. */
export class Watchers {
  readonly #processes: readonly HelperProcess[];

  constructor(...processes: readonly HelperProcess[]) {
    this.#processes = processes;
  }

  stop(): void {
    for (const process of this.#processes) process.kill("SIGSTOP");
  }

  goOn(): void {
    for (const process of this.#processes) process.kill("SIGCONT");
  }

  cpuMs(): number {
    return this.#processes.reduce((sum, { pid }) => sum + cpuMs(pid), 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const process of this.#processes) await process[Symbol.asyncDispose]();
  }
}

/** `top`, a dashboard whose page shows the first channel, and scrapes of its metrics, at 1 Hz. */
export class AllWatchers extends Watchers {
  readonly #page: HelperProcess;

  private constructor(top: HelperProcess, dashboard: HelperProcess, page: HelperProcess) {
    super(top, dashboard, page);
    this.#page = page;
  }

  static async start(hub: HubProcess): Promise<AllWatchers> {
    const top = await watcher(hub, 1000);
    const [dashboard, page] = [new HelperProcess("dashboard"), new HelperProcess("page")];
    const url = await dashboard.tell<string>("begin", { socket: hub.socket });
    await page.tell("begin", { url });
    const all = new AllWatchers(top, dashboard, page);
    while ((await all.seen()) === 0) await sleep(10);
    return all;
  }

  /** How often the page of the channel was read. */
  async seen(): Promise<number> {
    return (await this.#page.tell<{ details: number }>("counts")).details;
  }
}
