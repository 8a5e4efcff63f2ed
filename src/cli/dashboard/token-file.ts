/** A token that outlives the dashboard, in a file that Prometheus reads, too. */
import { closeSync, constants, fstatSync, openSync, readSync, writeSync } from "node:fs";
import { CudaIpcError } from "../../base/errors.js";
import { fromNodeError } from "../../os/system-error.js";
import { secret } from "../../web/web-access.js";

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;
const TOKEN = /^[\w-]{32,256}$/;
const BYTES_MAX = 300;

/**
 * The token in the file. Makes the file if there is none. Its group may read it, others may not.
 * @throws PERMISSION_DENIED, INVALID_FILE, SYSTEM_ERROR
 */
export function tokenIn(path: string): string {
  const attempt = `use the token in "${path}"`;
  try {
    return existing(path, attempt) ?? created(path);
  } catch (error) {
    throw error instanceof CudaIpcError ? error : fromNodeError(attempt, error);
  }
}

function created(path: string): string {
  const token = secret();
  const fd = openSync(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  try {
    writeSync(fd, `${token}\n`);
  } finally {
    closeSync(fd);
  }
  return token;
}

function existing(path: string, attempt: string): string | undefined {
  let fd: number;
  try {
    // WHY non-blocking: to open a pipe would wait for its writer.
    fd = openSync(path, O_RDONLY | O_NONBLOCK);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  try {
    const facts = fstatSync(fd);
    const refuse = (code: "PERMISSION_DENIED" | "INVALID_FILE", found: string) =>
      new CudaIpcError(code, `Cannot ${attempt}: ${found}`);
    if (!facts.isFile()) throw refuse("INVALID_FILE", "it is not a file");
    if ((facts.mode & 0o007) !== 0)
      throw refuse("PERMISSION_DENIED", "all users may use it. Protect it with: chmod o= FILE");
    const bytes = Buffer.alloc(BYTES_MAX);
    const token = bytes.toString("latin1", 0, readSync(fd, bytes, 0, BYTES_MAX, 0)).trim();
    if (!TOKEN.test(token))
      throw refuse("INVALID_FILE", "wanted 32 to 256 letters, digits, '-' and '_' in one line");
    return token;
  } finally {
    closeSync(fd);
  }
}
