/** Replies about objects and their holders, limited to what fits into one message. */
import { limits } from "../../base/limits.js";
import type {
  HeldObject,
  Holder,
  ObjectSummary,
  RequestOf,
  ResultOf,
} from "../../wire/messages.js";
import { placeOf } from "../objects/nameless-objects.js";
import type { ObjectIndex } from "../objects/object-index.js";
import { isOwned, type Lease, type SharedObject, unheldSince } from "../objects/shared-object.js";
import { mayOpen } from "./access.js";
import { Fitting, takeFitting } from "./fitting.js";
import type { Peer } from "./ports.js";

/** The holders of one object in a list of objects. */
const HOLDERS_BYTES_MAX = 16 * 1024;

function summarize<Fd>(object: SharedObject<Fd>): ObjectSummary {
  const { name, id, published, lifetime, sharing, leases, owner, memory, createdAtMs, descriptor } =
    object;
  const { serviceUsers = [] } = object;
  return {
    name,
    object: id,
    published,
    lifetime,
    sharing,
    leases: leases.size,
    ownerPid: isOwned(object) ? owner.pid : null,
    ownerUid: owner.uid,
    hasMemory: memory !== undefined,
    createdAtMs,
    unheldSinceMs: unheldSince(object) ?? null,
    descriptor,
    ...(serviceUsers.length > 1 ? { serviceUsers: [...serviceUsers] } : {}),
  };
}

function withHolders<Fd>(object: SharedObject<Fd>): HeldObject {
  const fitting = new Fitting(HOLDERS_BYTES_MAX);
  const { taken } = takeFitting(object.leases.values(), holderOf, fitting);
  return { ...summarize(object), holders: taken };
}

/** As many objects that this user may see as fit, and the place where the next page begins. */
export function listPage<Fd>(
  index: ObjectIndex<Fd>,
  peer: Peer,
  { after, holders, nameless }: RequestOf<"list">,
): ResultOf<"list"> {
  const entryOf = holders ? withHolders<Fd> : summarize<Fd>;
  if (nameless) {
    const { taken, more } = takeFitting(
      index.nameless.after(peer, after),
      (object): HeldObject => ({ ...entryOf(object), nameless: true }),
    );
    const last = taken.at(-1);
    return { objects: taken, next: more && last !== undefined ? placeOf(last.object) : null };
  }
  const { taken, more } = takeFitting(index.visibleAfter(peer, after), entryOf);
  return { objects: taken, next: more ? (taken.at(-1)?.name ?? null) : null };
}

/** What changed since this position, of what this user may see. */
export function changesPage<Fd>(
  index: ObjectIndex<Fd>,
  peer: Peer,
  since: number | undefined,
): ResultOf<"changes"> {
  const { changes } = index;
  const objects: HeldObject[] = [];
  const ended: number[] = [];
  if (since === undefined || !changes.reachesBackTo(since))
    return { objects, ended, next: changes.end, more: false, reset: true };
  const fitting = new Fitting();
  const end = Math.min(changes.end, since + limits.changesPerPageMax);
  let position = since;
  for (; position < end; position += 1) {
    const entry = changes.at(position);
    if (typeof entry !== "number") {
      if (!mayOpen(entry, peer, "read")) continue;
      if (!fitting.takes(entry.id)) break;
      ended.push(entry.id);
      continue;
    }
    const object = index.get(entry);
    // A later entry tells of it.
    if (object?.named !== true || object.changedAt !== position) continue;
    if (!mayOpen(object, peer, "read")) continue;
    const held = withHolders(object);
    if (!fitting.takes(held)) break;
    objects.push(held);
  }
  return { objects, ended, next: position, more: position < changes.end, reset: false };
}

/** An object, as many of its holders as fit, and the count of the others. */
export function inspection<Fd>(object: SharedObject<Fd>): ResultOf<"inspect"> {
  const { taken } = takeFitting(object.leases.values(), holderOf);
  return {
    object: summarize(object),
    holders: taken,
    holdersLeftOut: object.leases.size - taken.length,
  };
}

function holderOf<Fd>({ session, kind, role, seat, sinceMs }: Lease<Fd>): Holder {
  const { peer, program, id } = session;
  const ofChannel = {
    ...(role === undefined ? {} : { role }),
    ...(seat === undefined ? {} : { place: seat }),
  };
  return { pid: peer.pid, program, access: kind, session: id, sinceMs, ...ofChannel };
}
