/** A memory cgroup of the test's own below that of this process, if the system allows it. */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { until } from "../until.js";

const ROOT = "/sys/fs/cgroup";

export class MemoryCgroup {
  readonly #path: string;

  private constructor(path: string) {
    this.#path = path;
  }

  /** Undefined where there is none to be made: not root, or the hierarchy is somebody else's. */
  static tryCreate(bytesMax: number): MemoryCgroup | undefined {
    for (const [folder, limit] of places()) {
      const path = join(folder, `cuda-ipc-test-${process.pid}`);
      try {
        mkdirSync(path);
      } catch {
        continue;
      }
      if (existsSync(join(path, limit))) {
        try {
          writeFileSync(join(path, limit), String(bytesMax));
          return new MemoryCgroup(path);
        } catch {
          // It may be made, but not limited.
        }
      }
      rmdirSync(path);
    }
    return undefined;
  }

  /** What it takes from here on counts here. */
  add(pid: number): void {
    writeFileSync(join(this.#path, "cgroup.procs"), String(pid));
  }

  /** Its processes have ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    await until(
      "the cgroup is empty",
      () => readFileSync(join(this.#path, "cgroup.procs"), "utf8") === "",
    );
    rmdirSync(this.#path);
  }
}

/**
 * The folder of this process's own cgroup, and the file that takes the limit: of version 1 and of
 * version 2.
 */
function* places(): Iterable<readonly [folder: string, limit: string]> {
  for (const line of readFileSync("/proc/self/cgroup", "utf8").split("\n")) {
    const [, controllers = "", path = ""] = line.match(/^\d+:([^:]*):(.*)$/) ?? [];
    if (controllers.split(",").includes("memory"))
      yield [join(ROOT, "memory", path), "memory.limit_in_bytes"];
    else if (line.startsWith("0::")) yield [join(ROOT, path), "memory.max"];
  }
}
