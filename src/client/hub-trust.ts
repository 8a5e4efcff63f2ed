/** Whose hub a client joins: one of its own user, of root, or of a user that it was told to trust. */
import { CudaIpcError } from "../base/errors.js";
import { ownUid, ROOT } from "../os/runtime-folder.js";
import { userWords } from "../os/user-namespace.js";

/** The name of a user, for those who print it. */
export { userName } from "../os/account-names.js";

export const UID_MAX = 2 ** 32 - 2;

/** @param hubUid default the variable `CUDA_IPC_HUB_UID` */
export function trustedUids(hubUid?: number, env: NodeJS.ProcessEnv = process.env): ReadonlySet<number> {
  const named = hubUid === undefined ? ofEnvironment(env.CUDA_IPC_HUB_UID) : hubUid;
  const trusted = new Set([ownUid(), ROOT]);
  if (named !== undefined) trusted.add(named);
  return trusted;
}

/** @throws UNTRUSTED_PEER */
export function checkHubUser(socketPath: string, uid: number, trusted: ReadonlySet<number>): void {
  if (trusted.has(uid)) return;
  throw new CudaIpcError(
    "UNTRUSTED_PEER",
    `Cannot trust the hub at ${socketPath}: it runs as ${userWords(uid)}, this process as ${ownUid()}; ` +
      "a hub of another user than root is trusted where CUDA_IPC_HUB_UID or the option hubUid names that user",
  );
}

function ofEnvironment(text: string | undefined): number | undefined {
  if (text === undefined || text === "") return undefined;
  if (/^\d+$/.test(text) && Number(text) <= UID_MAX) return Number(text);
  throw new RangeError(`CUDA_IPC_HUB_UID must be the number of a user, not ${JSON.stringify(text)}`);
}
