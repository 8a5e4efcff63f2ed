/** A folder for a hub that is nobody else's, for as long as some work takes. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { limits } from "../base/limits.js";

/** What mkdtemp and the socket's name add to the folder's own path. */
const NAME_BYTES = 32;

/** Runs the work with the path of a socket in a new folder of mode 0700, which is removed afterwards. */
export async function withTemporarySocket<T>(prefix: string, work: (socketPath: string) => Promise<T>): Promise<T> {
  const wanted = tmpdir();
  // WHY: a socket's path may be 107 bytes long, which a folder for temporary files can exceed by itself.
  const parent = Buffer.byteLength(wanted) + NAME_BYTES > limits.socketPathBytesMax ? "/tmp" : wanted;
  const folder = await mkdtemp(join(parent, prefix));
  try {
    return await work(join(folder, "hub.sock"));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
