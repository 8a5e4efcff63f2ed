/** Replies about the hub and its objects, limited to what fits into one message. */
import { limits } from "../../base/limits.js";
import type { Holder, HubStatus, ObjectSummary, ResultOf } from "../../wire/messages.js";
import { type Account, quotaFields } from "../limits/quota.js";
import { isOwned, type Lease, type SharedObject } from "../objects/shared-object.js";
import type { HubIdentity, HubPorts } from "./ports.js";
import type { Held } from "./session-end.js";
import type { Session } from "./sessions.js";

/** Room for the rest of a reply: its head, a name, and one object with at most 64 dimensions. */
const REST_BYTES = 8 * 1024;

function summarize<Fd>(object: SharedObject<Fd>): ObjectSummary {
  const { name, id, published, lifetime, sharing, leases, owner, memory, createdAtMs, descriptor } =
    object;
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

/** As many of these objects as fit, and the name after which the next page begins. */
export function listPage<Fd>(inOrder: Iterable<SharedObject<Fd>>): ResultOf<"list"> {
  const { taken, more } = takeFitting(inOrder, summarize);
  return { objects: taken, next: more ? (taken.at(-1)?.name ?? null) : null };
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

function holderOf<Fd>({ session, kind, role, seat }: Lease<Fd>): Holder {
  const { peer, program } = session;
  const ofChannel = {
    ...(role === undefined ? {} : { role }),
    ...(seat === undefined ? {} : { place: seat }),
  };
  return { pid: peer.pid, program, access: kind, ...ofChannel };
}

/** The session that asks for the status, and whether it may see how much every user uses. */
export interface StatusAudience<Fd> {
  readonly asking: Session<Fd>;
  readonly seesAllUsers: boolean;
}

/** The limits of the session that asks and those above it, and the usage of the users it sees. */
export function hubStatus<Fd>(
  identity: HubIdentity,
  { sessions, objects: { index, lost }, waiting }: Held<Fd>,
  ports: Pick<HubPorts<Fd>, "keeper" | "troubles">,
  { asking, seesAllUsers }: StatusAudience<Fd>,
): HubStatus {
  const { peer, account } = asking;
  const own = [[peer.uid, sessions.accountOf(peer.uid)]] as const;
  const users = seesAllUsers ? sessions.accounts() : own;
  let using = 0;
  for (const [, { inUse }] of users) if (inUse) using += 1;
  const { taken } = takeFitting(usageOf(users), (user) => user);
  return {
    ...identity,
    clients: sessions.attachedCount,
    detached: sessions.detachedCount,
    waitingOpens: waiting.size,
    hostBytes: sessions.hubAccount.used("hostBytes"),
    deviceBytes: sessions.hubAccount.used("deviceBytes"),
    lost: lost.list(peer),
    keeper: ports.keeper(),
    troubles: [...ports.troubles()],
    objects: index.size,
    pinned: index.pinnedCount,
    withoutMemory: index.withoutMemoryCount,
    leases: index.leaseCount,
    limits: [...limitsAbove(account)].reverse(),
    users: taken,
    usersLeftOut: using - taken.length,
  };
}

type Users = Iterable<readonly [uid: number, account: Account]>;

function* usageOf(users: Users): IterableIterator<HubStatus["users"][number]> {
  for (const [uid, account] of users) if (account.inUse) yield { uid, ...account.usage };
}

/** The limits of this account and of the accounts above it. */
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
