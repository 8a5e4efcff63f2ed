/** What the hub says of itself and its objects, as the messages want it and as much of it as one message takes. */
import { limits } from "../base/limits.js";
import type { HubStatus, ObjectSummary, ResultOf } from "../wire/messages.js";
import { isOwned, type ObjectTable, type SharedObject } from "./object-table.js";
import type { HubIdentity } from "./ports.js";

/** What a reply holds beside a list: its head, a name, and one summary of an object, whose descriptor has at most 64 numbers. */
const REST_BYTES = 8 * 1024;

function summarize<Fd>(object: SharedObject<Fd>): ObjectSummary {
  const { name, id, published, lifetime, sharing, leases, owner, memory, createdAtMs, descriptor } = object;
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
    descriptor,
  };
}

/** The first of these objects, as many as fit, and the name after which the next page begins. */
export function listPage<Fd>(inOrder: Iterable<SharedObject<Fd>>): ResultOf<"list"> {
  const { taken, more } = takeFitting(inOrder, summarize);
  return { objects: taken, next: more ? (taken.at(-1)?.name ?? null) : null };
}

/** An object and its holders, as many as fit, and a count of the others. */
export function inspection<Fd>(object: SharedObject<Fd>): ResultOf<"inspect"> {
  const { taken } = takeFitting(object.leases.values(), ({ session, kind }) => {
    return { pid: session.peer.pid, program: session.program, access: kind };
  });
  return { object: summarize(object), holders: taken, holdersLeftOut: object.leases.size - taken.length };
}

type Counts = Pick<HubStatus, "clients" | "detached" | "waitingOpens" | "hostBytes" | "deviceBytes">;

export function hubStatus<Fd>(identity: HubIdentity, table: ObjectTable<Fd>, counts: Counts): HubStatus {
  const { size: objects, leaseCount: leases, pinnedCount: pinned, withoutMemoryCount: withoutMemory } = table;
  return { ...identity, ...counts, objects, pinned, withoutMemory, leases };
}

function takeFitting<Item, Entry>(
  items: Iterable<Item>,
  entryOf: (item: Item) => Entry,
): { readonly taken: Entry[]; readonly more: boolean } {
  const taken: Entry[] = [];
  let byteLength = REST_BYTES;
  for (const item of items) {
    const entry = entryOf(item);
    byteLength += Buffer.byteLength(JSON.stringify(entry)) + 1;
    if (byteLength > limits.messageBytesMax) return { taken, more: true };
    taken.push(entry);
  }
  return { taken, more: false };
}
