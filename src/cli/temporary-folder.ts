/** A private folder for the socket of a hub that only one command uses. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { limits } from "../base/limits.js";

/** The bytes that mkdtemp and the socket's name add to the folder's own path. */
const NAME_BYTES = 32;
/** With growing pauses, which take 5.5 s together. */
const RETRIES = 10;

/** Calls `work` with a socket path in a new folder of mode 0700. Removes the folder afterwards. */
export async function withTemporarySocket<T>(
  prefix: string,
  work: (socketPath: string) => Promise<T>,
): Promise<T> {
  const wanted = tmpdir();
  // A socket path has at most 107 bytes, and TMPDIR alone can be longer.
  const parent =
    Buffer.byteLength(wanted) + NAME_BYTES > limits.socketPathBytesMax ? "/tmp" : wanted;
  const folder = await mkdtemp(join(parent, prefix));
  try {
    return await work(join(folder, "hub.sock"));
  } finally {
    // WHY retries: a hub that is about to end may still write there.
    await rm(folder, { recursive: true, force: true, maxRetries: RETRIES });
  }
}
