// Maps a page of an inherited file very often, and punches holes into it until its parent is gone.
// Prints nothing; sends a message when it begins.
import { libc } from "../../../../src/ffi/libc.js";

const FILE_FD = 3;
const PAGE_BYTES = 4096;
const MAPPINGS = 45_000;
const [READ_WRITE, SHARED] = [3, 1];
const KEEP_SIZE_AND_PUNCH_HOLE = 3;

const parent = process.ppid;
for (let count = 0; count < MAPPINGS; count += 1)
  libc().mmap(null, PAGE_BYTES, READ_WRITE, SHARED, FILE_FD, 0);
process.send?.("here");
while (process.ppid === parent) {
  libc().fallocate(FILE_FD, KEEP_SIZE_AND_PUNCH_HOLE, 0, PAGE_BYTES);
  await new Promise((resolve) => setImmediate(resolve));
}
process.exit();
