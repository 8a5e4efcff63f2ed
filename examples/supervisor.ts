/** Keeps child processes of an example running: one that ended is started again. */
import { once } from "node:events";
import { setTimeout } from "node:timers/promises";
import type { Child } from "./child.ts";
import { say } from "./program.ts";

const [PAUSE_MS, PAUSE_MS_MAX] = [50, 2000] as const;

/** As systemd with Restart=on-failure does it: starts what has ended again, after pauses that grow while it does not get ready. */
export class Supervisor {
  readonly replaced: Promise<void>;
  readonly #start: () => Child;
  readonly #running = new Set<Child>();
  #onReplaced: (worker: Child) => void = () => {};
  #isEnding = false;

  constructor(start: () => Child) {
    this.#start = start;
    this.replaced = new Promise((resolve) => {
      this.#onReplaced = ({ pid }) => resolve(say(`worker ${pid} serves in its place`));
    });
  }

  async keepOne(): Promise<void> {
    let pauseMs: number = PAUSE_MS;
    for (let isFirst = true; !this.#isEnding; isFirst = false) {
      using worker = this.#start();
      const exited = once(worker.process, "exit");
      try {
        await worker.hear();
        this.#running.add(worker);
        pauseMs = PAUSE_MS;
        if (!isFirst) this.#onReplaced(worker);
        if (this.#isEnding) worker.tell("end");
      } catch {
        // It ends, or has ended: its exit says how.
      }
      const [code, signal] = await exited;
      this.#running.delete(worker);
      if (this.#isEnding) return;
      say(`worker ${worker.pid} ended with ${signal ?? code}: another is started in ${pauseMs} ms`);
      await setTimeout(pauseMs);
      pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX);
    }
  }

  killOne(why: string): void {
    const [worker] = this.#running;
    say(`${why}: ends worker ${worker?.pid} in the midst of its work by SIGKILL`);
    worker?.process.kill("SIGKILL");
  }

  end(): void {
    this.#isEnding = true;
    for (const worker of this.#running) worker.tell("end");
  }
}
