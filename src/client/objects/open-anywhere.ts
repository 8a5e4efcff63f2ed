/**
 * Opens a name of this hub, or lets the bridge fetch it from another machine. The result always
 * comes from this hub, where the bridge publishes what it fetched.
 */
import { Deadline, type WaitOptions } from "../../base/deadline.js";
import { CudaIpcError, hasCode } from "../../base/errors.js";
import { defaults } from "../../base/limits.js";
import { pullName } from "../connection/bridge-call.js";

export interface FindOptions extends WaitOptions {
  readonly wait?: boolean | undefined;
}

/** @throws BRIDGE_UNAVAILABLE, PEER_GONE, UNSUPPORTED, VERIFICATION_FAILED; as `open` */
export async function openAnywhere<T extends { close(): void }>(
  socketPath: string,
  name: string,
  options: FindOptions,
  open: (options: FindOptions) => Promise<T>,
): Promise<T> {
  const { wait = true, signal, timeoutMs } = options;
  const deadline = new Deadline(
    `open "${name}" from any machine`,
    { signal, timeoutMs },
    defaults.requestTimeoutMs,
  );
  const isLimited = timeoutMs !== undefined;
  const openNow = () => {
    const rest = isLimited ? { timeoutMs: deadline.remainingMs } : {};
    return open({ ...options, ...rest, wait: false }).catch((error) => {
      throw isLimited ? deadline.named(error) : error;
    });
  };
  try {
    return await openNow();
  } catch (error) {
    if (!hasCode(error, "NOT_FOUND")) throw error;
  }
  const pull = { deadline, isLimited, wait };
  if (wait) return openMeanwhile(socketPath, name, options, pull, open);
  await pullName(socketPath, name, pull);
  return openNow();
}

interface Pull {
  readonly deadline: Deadline;
  /** Whether the deadline counts for the fetch, too. */
  readonly isLimited: boolean;
  readonly wait: boolean;
}

/** Another process of this machine may publish the name before the bridge does. */
async function openMeanwhile<T extends { close(): void }>(
  socketPath: string,
  name: string,
  options: FindOptions,
  pull: Pull,
  open: (options: FindOptions) => Promise<T>,
): Promise<T> {
  const { signal } = options;
  const opening = new AbortController();
  const pulling = new AbortController();
  const either = (mine: AbortController) =>
    signal === undefined ? mine.signal : AbortSignal.any([signal, mine.signal]);
  const limits = { timeoutMs: Number.POSITIVE_INFINITY, signal: either(opening) };
  const opened = open({ ...options, ...limits, wait: true });
  const isOpen = opened.then(
    () => pulling.abort(),
    () => pulling.abort(),
  );
  try {
    await pullName(socketPath, name, { ...pull, signal: either(pulling) });
    // The bridge has published it, so only its removal in this moment could make the open wait.
    const last = pull.isLimited
      ? pull.deadline
      : new Deadline(`open "${name}"`, options, defaults.requestTimeoutMs);
    await last.race(isOpen, () => {});
  } catch (error) {
    if (!pulling.signal.aborted) {
      const reason = new CudaIpcError("ABORTED", `Cannot open "${name}": it could not be fetched`);
      opening.abort(reason);
      const late = await opened.catch(() => undefined);
      if (late === undefined) throw error;
    }
  }
  return opened;
}
