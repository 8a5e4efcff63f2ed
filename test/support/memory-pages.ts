/** The memory files of this process, and which of their pages are taken. */
import { fstatSync, readdirSync, readlinkSync } from "node:fs";

const BLOCK_BYTES = 512;

interface Pages {
  readonly files: number;
  readonly byteLength: number;
  readonly takenBytes: number;
}

/** Of the memory files that this process has and that were not there before. */
export function pagesOf(before: ReadonlySet<number>): Pages {
  const found = new Map<number, { byteLength: number; takenBytes: number }>();
  for (const [inode, facts] of memoryFiles()) if (!before.has(inode)) found.set(inode, facts);
  const facts = [...found.values()];
  return {
    files: facts.length,
    byteLength: facts.reduce((sum, { byteLength }) => sum + byteLength, 0),
    takenBytes: facts.reduce((sum, { takenBytes }) => sum + takenBytes, 0),
  };
}

export function memoryFiles(): Map<number, { byteLength: number; takenBytes: number }> {
  const found = new Map<number, { byteLength: number; takenBytes: number }>();
  for (const entry of readdirSync("/proc/self/fd")) {
    try {
      if (!readlinkSync(`/proc/self/fd/${entry}`).startsWith("/memfd:cuda-ipc")) continue;
      const { ino, size, blocks } = fstatSync(Number(entry));
      found.set(ino, { byteLength: size, takenBytes: blocks * BLOCK_BYTES });
    } catch {
      // The descriptor that listed the folder.
    }
  }
  return found;
}

/** The pages of the memory files that `open` makes or brings. */
export async function pagesAfter(open: () => Promise<Disposable>): Promise<Pages> {
  const before = new Set(memoryFiles().keys());
  using _ = await open();
  return pagesOf(before);
}
