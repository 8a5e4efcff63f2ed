/** Restarts the child processes of an example when they end. */
import { once } from "node:events";
import { setTimeout } from "node:timers/promises";
import type { Child } from "./child.ts";
import { say } from "./program.ts";

const [PAUSE_MS, PAUSE_MS_MAX] = [50, 2000] as const;

/** Restarts like systemd with Restart=on-failure, with growing pauses until a child is ready. */
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
        // The child is ending. Its exit event says how.
      }
      const [code, signal] = await exited;
      this.#running.delete(worker);
      if (this.#isEnding) return;
      say(
        `worker ${worker.pid} ended with ${signal ?? code}: the next one starts in ${pauseMs} ms`,
      );
      await setTimeout(pauseMs);
      pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX);
    }
  }

  killOne(why: string): void {
    const [worker] = this.#running;
    say(`${why}: kills worker ${worker?.pid} at work by SIGKILL`);
    worker?.process.kill("SIGKILL");
  }

  end(): void {
    this.#isEnding = true;
    for (const worker of this.#running) worker.tell("end");
  }
}
