/**
 * The files and the environment in which the doctor reads where it is. Only reading is here, no judgement; a test gives a
 * folder of its own in place of `/`.
 */
import { accessSync, constants, existsSync, readFileSync, readlinkSync, statfsSync } from "node:fs";
import { join } from "node:path";

export interface Space {
  readonly totalBytes: number;
  readonly freeBytes: number;
  readonly writable: boolean;
}

export interface Surroundings {
  /** The file's text without what ends it; undefined where it is not there or not to be read. */
  text(path: string): string | undefined;
  exists(path: string): boolean;
  /** Where a symbolic link points; undefined where that cannot be read. */
  link(path: string): string | undefined;
  /** The file system behind a folder; undefined where the folder is not there. */
  space(path: string): Space | undefined;
  /** An environment variable; one that is empty counts as not set. */
  variable(name: string): string | undefined;
}

/** @param root stands for `/` */
export function surroundingsUnder(root: string, environment: NodeJS.ProcessEnv): Surroundings {
  const at = (path: string) => join(root, path);
  return {
    // WHY the NUL: a text of the device tree ends with one.
    text: (path) => attempt(() => readFileSync(at(path), "utf8").replace(/[\0\s]+$/, "")),
    exists: (path) => existsSync(at(path)),
    link: (path) => attempt(() => readlinkSync(at(path))),
    space: (path) => attempt(() => spaceOf(at(path))),
    variable: (name) => environment[name] || undefined,
  };
}

export function surroundingsOfProcess(): Surroundings {
  return surroundingsUnder("/", process.env);
}

function spaceOf(folder: string): Space {
  const { bsize, blocks, bavail } = statfsSync(folder);
  const writable = attempt(() => accessSync(folder, constants.W_OK) ?? true) ?? false;
  return { totalBytes: bsize * blocks, freeBytes: bsize * bavail, writable };
}

/** WHY all errors alike: what cannot be read is not known, whatever the reason, and is said to be so. */
function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
