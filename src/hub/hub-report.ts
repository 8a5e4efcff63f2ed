/** What the hub says of itself and its objects, as the messages want it and as much of it as one message takes. */
import { limits } from "../base/limits.js";
import type { Holder, HubStatus, ObjectSummary, ResultOf } from "../wire/messages.js";
import type { ObjectTable } from "./object-table.js";
import type { HubIdentity } from "./ports.js";
import { type Account, quotaFields } from "./quota.js";
import { isOwned, type Lease, type SharedObject } from "./shared-object.js";

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
  const { taken } = takeFitting(object.leases.values(), holderOf);
  return { object: summarize(object), holders: taken, holdersLeftOut: object.leases.size - taken.length };
}

function holderOf<Fd>({ session, kind, role, place }: Lease<Fd>): Holder {
  const { peer, program } = session;
  const ofChannel = { ...(role === undefined ? {} : { role }), ...(place === undefined ? {} : { place }) };
  return { pid: peer.pid, program, access: kind, ...ofChannel };
}

type Counts = Pick<
  HubStatus,
  "clients" | "detached" | "waitingOpens" | "hostBytes" | "deviceBytes" | "lost" | "keeper" | "troubles"
>;

/** Whose limits are told, from the client that asks up to the hub, and whose use of it. */
export interface Usage {
  readonly asking: Account;
  readonly users: Iterable<readonly [uid: number, account: Account]>;
}

export function hubStatus<Fd>(
  identity: HubIdentity,
  table: ObjectTable<Fd>,
  counts: Counts,
  { asking, users }: Usage,
): HubStatus {
  const { size: objects, leaseCount: leases, pinnedCount: pinned, withoutMemoryCount: withoutMemory } = table;
  let using = 0;
  for (const [, { inUse }] of users) if (inUse) using += 1;
  const { taken } = takeFitting(usageOf(users), (user) => user);
  return {
    ...identity,
    ...counts,
    objects,
    pinned,
    withoutMemory,
    leases,
    limits: [...limitsAbove(asking)].reverse(),
    users: taken,
    usersLeftOut: using - taken.length,
  };
}

function* usageOf(users: Usage["users"]): IterableIterator<HubStatus["users"][number]> {
  for (const [uid, account] of users) if (account.inUse) yield { uid, ...account.usage };
}

/** The limits that are set for this account and for those above it. */
function* limitsAbove(asking: Account): IterableIterator<HubStatus["limits"][number]> {
  for (let account: Account | undefined = asking; account !== undefined; account = account.parent) {
    for (const resource of [...quotaFields].reverse()) {
      const limit = account.quota[resource];
      if (!Number.isFinite(limit)) continue;
      yield {
        of: account.level,
        resource,
        limit,
        used: resource === "messagesPerSecond" ? null : account.used(resource),
      };
    }
  }
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
