/** The test's own memory cgroup, below that of this process, if the system allows it. */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { until } from "../until.js";

const ROOT = "/sys/fs/cgroup";

export class MemoryCgroup {
  readonly #path: string;

  private constructor(path: string) {
    this.#path = path;
  }

  /** Undefined if it cannot be created: without root, or in another owner's hierarchy. */
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
          // It can be created, but not limited.
        }
      }
      rmdirSync(path);
    }
    return undefined;
  }

  /** Memory that the process takes from now on counts here. */
  add(pid: number): void {
    writeFileSync(join(this.#path, "cgroup.procs"), String(pid));
  }

  /** A command that runs another one in it. */
  within(): readonly string[] {
    return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', join(this.#path, "cgroup.procs")];
  }

  /** Waits until its processes have ended, and removes it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await until(
      "the cgroup is empty",
      () => readFileSync(join(this.#path, "cgroup.procs"), "utf8") === "",
    );
    rmdirSync(this.#path);
  }
}

/** The folder of this process's cgroup and the name of its limit file, for version 1 or 2. */
function* places(): Iterable<readonly [folder: string, limit: string]> {
  for (const line of readFileSync("/proc/self/cgroup", "utf8").split("\n")) {
    const [, controllers = "", path = ""] = line.match(/^\d+:([^:]*):(.*)$/) ?? [];
    if (controllers.split(",").includes("memory"))
      yield [join(ROOT, "memory", path), "memory.limit_in_bytes"];
    else if (line.startsWith("0::")) yield [join(ROOT, path), "memory.max"];
  }
}
