/** Opening a file to read it, without waiting for whatever else may lie at its path. */
import { constants, type Stats } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import { fileSystemError, invalidFile } from "./file-errors.js";

export interface OpenSourceOptions {
  /** Whether the last part of the path may be a link (default); false refuses one. */
  readonly followLink?: boolean | undefined;
}

/**
 * An ordinary file, open for reading. The caller closes it. A folder is refused by its first read.
 * @throws SystemError `INVALID_FILE`, `PERMISSION_DENIED`; `INVALID_FILE` for pipes, sockets and
 * devices
 */
export async function openSourceFile(path: string, options: OpenSourceOptions = {}): Promise<FileHandle> {
  try {
    // WHY before it is opened: opening a device can have effects of its own.
    refuseSpecial(await stat(path), path);
    // WHY non-blocking: a named pipe that came in between would wait for a writer.
    const noFollow = options.followLink === false ? constants.O_NOFOLLOW : 0;
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | noFollow);
    try {
      const facts = await file.stat();
      refuseSpecial(facts, path);
      if (facts.isFile() && facts.size === 0) await refuseHiddenContent(file, path);
      return file;
    } catch (error) {
      await file.close();
      throw error;
    }
  } catch (error) {
    throw fileSystemError(`read ${JSON.stringify(path)}`, error);
  }
}

function refuseSpecial(facts: Stats, path: string): void {
  if (facts.isFile() || facts.isDirectory()) return;
  throw invalidFile(path, `its size cannot be known: it is ${kindOf(facts)}, not an ordinary file`);
}

function kindOf(facts: Stats): string {
  if (facts.isFIFO()) return "a named pipe";
  if (facts.isSocket()) return "a socket";
  return "a device";
}

/** Files of /proc say that they are empty, whatever they hold. */
async function refuseHiddenContent(file: FileHandle, path: string): Promise<void> {
  const { bytesRead } = await file.read(new Uint8Array(1), 0, 1, 0);
  if (bytesRead > 0) throw invalidFile(path, "its size cannot be known: it says 0 bytes, but has content");
}
