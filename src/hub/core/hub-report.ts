/** Replies about the hub and its clients, limited to what fits into one message. */
import type { ClientStatus, HubStatus, ResultOf } from "../../wire/messages.js";
import { type Account, quotaFields } from "../limits/quota.js";
import { Fitting, takeFitting } from "./fitting.js";
import type { Held } from "./held.js";
import type { HubIdentity, HubPorts } from "./ports.js";
import type { Session } from "./sessions.js";

/** The session that asks for the status, and whether it may see how much every user uses. */
export interface StatusAudience<Fd> {
  readonly asking: Session<Fd>;
  readonly seesAllUsers: boolean;
}

/** The limits of the session that asks and those above it, and the usage of the users it sees. */
export function hubStatus<Fd>(
  identity: HubIdentity,
  { sessions, objects: { index, lost }, waiting }: Held<Fd>,
  ports: Pick<HubPorts<Fd>, "keeper" | "metrics" | "troubles">,
  { asking, seesAllUsers }: StatusAudience<Fd>,
): HubStatus {
  const { peer, account } = asking;
  const own = [[peer.uid, sessions.accountOf(peer.uid)]] as const;
  const users = seesAllUsers ? sessions.accounts() : own;
  let using = 0;
  for (const [, { inUse }] of users) if (inUse) using += 1;
  const fitting = new Fitting();
  const { taken: lostObjects } = takeFitting(lost.list(peer), (object) => object, fitting);
  const { taken } = takeFitting(usageOf(users), (user) => user, fitting);
  return {
    ...identity,
    clients: sessions.attachedCount,
    detached: sessions.detachedCount,
    waitingOpens: waiting.size,
    hostBytes: sessions.hubAccount.used("hostBytes"),
    deviceBytes: sessions.hubAccount.used("deviceBytes"),
    lost: lostObjects,
    keeper: ports.keeper(),
    metrics: ports.metrics(),
    troubles: [...ports.troubles()],
    objects: index.size,
    pinned: index.pinnedCount,
    nameless: index.nameless.use,
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

/** Sessions that this user may see, in order of their numbers, as many as fit. */
export function clientsPage<Fd>(sessions: Iterable<Session<Fd>>, after = 0): ResultOf<"clients"> {
  const following = [...sessions].filter(({ id }) => id > after).sort((a, b) => a.id - b.id);
  const { taken, more } = takeFitting(following, clientOf);
  return { clients: taken, next: more ? (taken.at(-1)?.session ?? null) : null };
}

function clientOf<Fd>({ id, peer, program, attached, leases, account }: Session<Fd>): ClientStatus {
  return {
    session: id,
    pid: peer.pid,
    uid: peer.uid,
    program,
    connected: attached,
    leases: leases.size,
    waitingOpens: account.used("waitingOpens"),
    hostBytes: account.used("hostBytes"),
    deviceBytes: account.used("deviceBytes"),
  };
}
