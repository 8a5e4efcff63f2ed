/**
 * Reads the system files and variables that the doctor judges. A test passes a folder of its own
 * instead of `/`.
 */
import { accessSync, constants, existsSync, readFileSync, readlinkSync, statfsSync } from "node:fs";
import { join } from "node:path";

export interface Space {
  readonly totalBytes: number;
  readonly freeBytes: number;
  readonly writable: boolean;
}

export interface Surroundings {
  /** The file's text without trailing white space. Undefined if it cannot be read. */
  text(path: string): string | undefined;
  exists(path: string): boolean;
  /** The target of a symbolic link. Undefined if it cannot be read. */
  link(path: string): string | undefined;
  /** The file system of a folder. Undefined if the folder does not exist. */
  space(path: string): Space | undefined;
  /** An environment variable. Undefined if it is empty. */
  variable(name: string): string | undefined;
}

/** @param root the folder to read instead of `/` */
export function surroundingsUnder(root: string, environment: NodeJS.ProcessEnv): Surroundings {
  const at = (path: string) => join(root, path);
  return {
    // Texts of the device tree end with a NUL.
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

/** Every error means the same: the value is unknown. */
function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
