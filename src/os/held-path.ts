/** Holds what a path leads to, so that nothing takes its place between a check and its use. */
import { open, readlink } from "node:fs/promises";

/** Opens only the name: no device notices it, and no named pipe waits. */
const O_PATH = 0o10000000;

export interface HeldPath extends AsyncDisposable {
  /** Leads to the same file or folder until this is disposed, whatever gets its name. */
  readonly path: string;
  /** Its absolute path without links, at the moment of the call. */
  readonly real: string;
}

/**
 * @param flags such as O_NOFOLLOW
 * @throws an error of Node.js
 */
export async function holdPath(path: string, flags = 0): Promise<HeldPath> {
  const handle = await open(path, O_PATH | flags);
  const held = `/proc/self/fd/${handle.fd}`;
  try {
    const real = await readlink(held);
    return { path: held, real, [Symbol.asyncDispose]: () => handle.close() };
  } catch (error) {
    await handle.close();
    throw error;
  }
}
