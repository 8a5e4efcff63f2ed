/** The users whose hub a client trusts: its own, root, and one more that it was told to trust. */
import { CudaIpcError } from "../../base/errors.js";
import { userWords } from "../../os/accounts.js";
import { ownUid, ROOT } from "../../os/runtime-folder.js";

/** The name of a user, for those who print it. */
export { userName } from "../../os/accounts.js";

export const UID_MAX = 2 ** 32 - 2;

/** @param hubUid default: the variable `CUDA_IPC_HUB_UID` */
export function trustedUids(
  hubUid?: number,
  env: NodeJS.ProcessEnv = process.env,
): ReadonlySet<number> {
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
    `Cannot trust the hub at ${socketPath}: it runs as ${userWords(uid)}, this process as ` +
      `${ownUid()}. To trust another user than root, set CUDA_IPC_HUB_UID or hubUid to its uid.`,
  );
}

function ofEnvironment(text: string | undefined): number | undefined {
  if (text === undefined || text === "") return undefined;
  if (/^\d+$/.test(text) && Number(text) <= UID_MAX) return Number(text);
  throw new RangeError(
    `CUDA_IPC_HUB_UID must be the number of a user, not ${JSON.stringify(text)}`,
  );
}
