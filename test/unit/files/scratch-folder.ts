/** A folder of a test's own that is gone when its block ends: `using scratch = scratchFolder()`. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface ScratchFolder extends Disposable {
  readonly path: string;
  /** Writes a file there and returns its path. */
  write(name: string, content: Uint8Array | string): string;
  /** A file or a folder with all that is in it. */
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
