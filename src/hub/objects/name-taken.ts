/** Who may take a name, and the error that says who has it. */
import { CudaIpcError } from "../../base/errors.js";
import type { Replace } from "../../wire/messages.js";
import { checkMayManage, mayOpen } from "../core/access.js";
import type { Peer } from "../core/ports.js";
import { type SharedObject, takesNameLater } from "./shared-object.js";

const HOW_TO_REPLACE = "To take the name over, pass `replace`.";

/** The error for a name that another object has. */
export function nameTaken<Fd>(attempt: string, found: SharedObject<Fd>, peer: Peer): CudaIpcError {
  const { kind } = found.descriptor.content;
  const words = `${holderOf(found, peer)}, number ${found.id}, has this name`;
  return new CudaIpcError(
    "NAME_TAKEN",
    `Cannot ${attempt}: a${kind === "array" ? "n" : ""} ${kind} ${words}. ${HOW_TO_REPLACE}`,
  );
}

/**
 * Checks that a client may take a name from the object that has it.
 * @throws PERMISSION_DENIED, WRONG_KIND, NAME_TAKEN
 */
export function checkMayReplace<Fd>(
  found: SharedObject<Fd>,
  kind: string,
  replace: Replace,
  peer: Peer,
): void {
  const attempt = `replace "${found.name}"`;
  if (typeof replace === "number" && found.id !== replace) throw nameTaken(attempt, found, peer);
  checkMayManage(found, peer, "replace");
  const foundKind = found.descriptor.content.kind;
  if (replace !== true || foundKind === kind) return;
  throw new CudaIpcError(
    "WRONG_KIND",
    `Cannot ${attempt}: it is of kind ${foundKind}, the new object of kind ${kind}. ` +
      'Remove it first, or allow it with the value "any" of `replace`.',
  );
}

/**
 * Checks that an object may be published under its name.
 * @param found the object that has the name
 * @throws as `checkMayReplace`; NAME_TAKEN, NOT_FOUND if it lost its name before it was published
 */
export function checkMayPublish<Fd>(
  object: SharedObject<Fd>,
  found: SharedObject<Fd> | undefined,
  peer: Peer,
): void {
  const { name, replace, descriptor } = object;
  if (object.named || object.published) return;
  if (takesNameLater(object)) {
    if (found !== undefined && replace !== undefined)
      checkMayReplace(found, descriptor.content.kind, replace, peer);
    return;
  }
  if (found !== undefined) throw nameTaken(`publish "${name}"`, found, peer);
  const by = removerOf(object, peer);
  throw new CudaIpcError("NOT_FOUND", `Cannot publish "${name}": its name was removed${by}`);
}

/** A user must not learn which program another user runs. */
function removerOf<Fd>({ removedBy }: SharedObject<Fd>, peer: Peer): string {
  if (removedBy === undefined) return " meanwhile";
  const { uid, pid } = removedBy.peer;
  if (uid !== peer.uid) return ` meanwhile by user ${uid}`;
  return ` meanwhile by process ${pid} (${removedBy.program})`;
}

/** Users who may not open an object must not learn which program another user runs. */
function holderOf<Fd>(found: SharedObject<Fd>, peer: Peer): string {
  if (!mayOpen(found, peer, "read")) return "of another user";
  const { owner, leases } = found;
  const creator = leases.owner?.session;
  const program = creator === undefined ? ", which has released it" : ` (${creator.program})`;
  return `of process ${owner.pid}${program}`;
}
