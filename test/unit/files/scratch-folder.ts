/**
 * A temporary folder that is removed at the end of its block: `using scratch = scratchFolder()`.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface ScratchFolder extends Disposable {
  readonly path: string;
  /** Writes a file into the folder and returns its path. */
  write(name: string, content: Uint8Array | string): string;
  /** A file, or a folder with all its content. */
  remove(name: string): void;
}

export function scratchFolder(): ScratchFolder {
  const path = mkdtempSync(join(tmpdir(), "cuda-ipc-files-"));
  return {
    path,
    write(name, content) {
      const file = join(path, name);
      writeFileSync(file, content);
      return file;
    },
    remove(name) {
      rmSync(join(path, name), { recursive: true });
    },
    [Symbol.dispose]() {
      rmSync(path, { recursive: true });
    },
  };
}
