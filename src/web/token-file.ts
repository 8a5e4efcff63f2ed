/** A token that outlives the dashboard, in a file that Prometheus reads, too. */
import { closeSync, constants, openSync, writeSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { CudaIpcError } from "../base/errors.js";
import { behindLinks, holdFolder } from "../os/behind-links.js";
import { fromNodeError } from "../os/system-error.js";
import { type Distrust, readTrustedFile } from "../os/trusted-file.js";
import { secret } from "./web-access.js";

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants;
const TOKEN = /^[\w-]{32,256}$/;
const BYTES_MAX = 300;

/**
 * The token in the file. Makes the file if there is none. An existing file must belong to this user
 * or to root. Only its owner may write it, only its group may read it, too.
 * @throws PERMISSION_DENIED, INVALID_FILE, SYSTEM_ERROR
 */
export async function tokenIn(path: string): Promise<string> {
  const attempt = `use the token in "${path}"`;
  try {
    return existing(path, attempt) ?? (await created(path));
  } catch (error) {
    throw error instanceof CudaIpcError ? error : fromNodeError(attempt, error);
  }
}

async function created(path: string): Promise<string> {
  const token = secret();
  await using folder = await holdFolder(await behindLinks(dirname(path)));
  const fd = openSync(
    join(folder.path, basename(path)),
    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
    0o600,
  );
  try {
    writeSync(fd, `${token}\n`);
  } finally {
    closeSync(fd);
  }
  return token;
}

function existing(path: string, attempt: string): string | undefined {
  const refuse = (code: "PERMISSION_DENIED" | "INVALID_FILE", found: string) =>
    new CudaIpcError(code, `Cannot ${attempt}: ${found}`);
  const distrusted = ({ about, found }: Distrust) =>
    refuse(about === "type" ? "INVALID_FILE" : "PERMISSION_DENIED", found);
  let bytes: Buffer;
  try {
    bytes = readTrustedFile(path, BYTES_MAX, distrusted, { secret: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  const token = bytes.toString("latin1").trim();
  if (!TOKEN.test(token))
    throw refuse("INVALID_FILE", "wanted 32 to 256 letters, digits, '-' and '_' in one line");
  return token;
}
