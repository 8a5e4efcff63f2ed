/**
 * Reads of mapped memory files that leave their holes alone. A read of a hole through a mapping
 * gives the file a page, which stays while the file lives. A file of any size without pages costs
 * its owner nothing, so one look at it could fill the machine. A read of the descriptor gives zeros
 * and takes no page.
 */
import type { Address } from "../ffi/koffi.js";
import { readFilePart, readFilePartAsync, statFile } from "./file-calls.js";
import type { Mapping } from "./mapping.js";
import type { OwnedFd } from "./owned-fd.js";

const STAT_BLOCK_BYTES = 512;
/** A shorter read takes less time than a trip to the thread pool and back. */
const INLINE_READ_BYTES = 256 * 1024;

interface SparseFile {
  readonly mapping: Mapping;
  readonly fd: OwnedFd;
}

let isSparing = false;
const sparse = new Set<SparseFile>();

/**
 * From now on this process reads files with holes by their descriptors. For commands that look at
 * memory of other users. WHY not always: each such mapping needs a descriptor more, and short reads
 * take longer.
 */
export function spareHoles(): void {
  isSparing = true;
}

/**
 * Keeps a duplicate of the descriptor while the mapping is open, if the file has holes. The mapping
 * begins at byte 0 of the file. WHY not for other files: holes that are made later get back no more
 * pages than the owner had paid for.
 */
export function keepIfSparse(mapping: Mapping, fd: OwnedFd): void {
  if (!isSparing) return;
  const { size, blocks } = statFile(fd);
  if (Number(blocks) * STAT_BLOCK_BYTES >= Number(size)) return;
  const file = { mapping, fd: fd.duplicate() };
  sparse.add(file);
  mapping.onClose(() => {
    sparse.delete(file);
    file.fd.close();
  });
}

/**
 * Reads mapped memory from this address on, by the descriptor that `keepIfSparse` kept. Undefined
 * if it kept none. The mapping stays open, and the bytes unused, until a read settles.
 */
export function sparseReader(address: Address): ((into: Uint8Array) => Promise<void>) | undefined {
  for (const { mapping, fd } of sparse) {
    const byteOffset = Number(address - mapping.address);
    if (byteOffset >= 0 && byteOffset < mapping.byteLength)
      return (into) => readAll(fd, into, byteOffset);
  }
  return undefined;
}

async function readAll(fd: OwnedFd, into: Uint8Array, byteOffset: number): Promise<void> {
  const read = into.byteLength <= INLINE_READ_BYTES ? readFilePart : readFilePartAsync;
  for (let done = 0; done < into.byteLength; ) {
    const count = await read(fd, into.subarray(done), byteOffset + done);
    // The mapping is no longer than the file, whose size is sealed.
    if (count === 0) throw new TypeError("a mapping behind the end of its file");
    done += count;
  }
}
