/**
 * How far the bridge of this machine is with its copies of other machines' objects, for commands
 * that list objects. Nothing is asked if no copy is under way.
 */
import { Deadline } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { hubSocketPath } from "../client/connect.js";
import { askCopies } from "../client/connection/bridge-call.js";
import type { CopyUnderWay } from "../wire/bridge-messages.js";
import type { ObjectSummary } from "./join-hub.js";

/** A bridge answers at once, or does not run properly. */
const LIMIT_MS = 1000;

/** By name. A bridge that does not answer leaves them out. @throws ABORTED */
export async function copiesUnderWay(
  objects: readonly ObjectSummary[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, CopyUnderWay>> {
  const isCopied = ({ published, descriptor }: ObjectSummary) =>
    !published && descriptor.replicaOf !== undefined;
  if (!objects.some(isCopied)) return new Map();
  try {
    const deadline = new Deadline("ask the bridge", { signal, timeoutMs: LIMIT_MS }, LIMIT_MS);
    const copies = await askCopies(hubSocketPath(undefined), deadline);
    return new Map(copies.map((copy) => [copy.name, copy]));
  } catch (error) {
    if (signal.aborted || !(error instanceof CudaIpcError)) throw error;
    return new Map();
  }
}
