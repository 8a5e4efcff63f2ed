/**
 * Tells that a file may have come or changed, by the system's word where it gives one (inotify), and every so often in any case:
 * not every file system tells, and a folder that is missing cannot be watched.
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
   * Resolves when the file may be another than at the last call of this, or before the first.
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
    // A watcher that fails later falls silent; the file is still looked for every so often.
    watcher.on("error", () => {});
    return watcher;
  } catch {
    // No such folder yet, or no watches left: the file is looked for every so often.
    return undefined;
  }
}
