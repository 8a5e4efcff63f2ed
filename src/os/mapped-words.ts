/** The 64-bit words of a memory file, for as long as a piece of work takes. */
import { Mapping } from "./mapping.js";
import { inspectMemoryFile } from "./memory-file.js";
import type { OwnedFd } from "./owned-fd.js";

/** @throws PERMISSION_DENIED where the descriptor is for reading alone */
export function withWords(fd: OwnedFd, use: (words: BigInt64Array) => void): void {
  const { byteLength } = inspectMemoryFile(fd);
  const mapping = Mapping.shared(fd, byteLength, "read-write");
  try {
    use(new BigInt64Array(mapping.view(0, byteLength).buffer));
  } finally {
    mapping.close();
  }
}
