/**
 * Waits for a file to appear or change. It uses inotify and also polls, because not every file
 * system sends events and a missing folder cannot be watched.
 */
import { type FSWatcher, watch } from "node:fs";
import { basename, dirname } from "node:path";
import type { Deadline } from "../base/deadline.js";

const POLL_MS = 250;

export class FileWatch {
  readonly #watcher: FSWatcher | undefined;
  #changed = false;
  #wake: () => void = () => {};

  /** @param path absolute */
  constructor(path: string) {
    this.#watcher = watchFolder(path, () => {
      this.#changed = true;
      this.#wake();
    });
  }

  /**
   * Resolves when the file may have changed since the last call.
   * @throws TIMEOUT, ABORTED
   */
  async next(deadline: Deadline): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    if (!this.#changed) {
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
        timer = setTimeout(resolve, POLL_MS);
      });
      await deadline.race(woken, () => {}).finally(() => clearTimeout(timer));
    }
    deadline.check();
    this.#changed = false;
  }

  close(): void {
    this.#watcher?.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

function watchFolder(path: string, onChange: () => void): FSWatcher | undefined {
  const name = basename(path);
  try {
    const watcher = watch(dirname(path), (_event, changed) => {
      if (changed === null || changed === name) onChange();
    });
    // A watcher that fails later sends no more events. Polling goes on.
    watcher.on("error", () => {});
    return watcher;
  } catch {
    // The folder is missing, or no watches are left. Polling goes on.
    return undefined;
  }
}
